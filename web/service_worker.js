// Keeps the page's own files, so that it works offline after the first visit. Other addresses, ranges, and the example
// until it has been opened once, go to the network untouched.
const files = __FILES__;
const cacheName = `tftf-${__VERSION__}`;
const scope = new URL('./', self.location.href);

self.addEventListener('install', (event) => {
  event.waitUntil(
    caches
      .open(cacheName)
      .then((cache) => cache.addAll([...files, './'].map((name) => new Request(new URL(name, scope), { cache: 'reload' }))))
      .then(() => self.skipWaiting()),
  );
});

self.addEventListener('activate', (event) => {
  event.waitUntil(
    caches
      .keys()
      .then((names) => Promise.all(names.filter((name) => name.startsWith('tftf-') && name !== cacheName).map((name) => caches.delete(name))))
      .then(() => self.clients.claim()),
  );
});

async function answer(request, path) {
  const cache = await caches.open(cacheName);
  const kept = await cache.match(path === '' ? new URL('./', scope) : new URL(path, scope));
  if (kept) return kept;
  const response = await fetch(request);
  if (response.status === 200 && path.startsWith('example/')) await cache.put(new URL(path, scope), response.clone());
  return response;
}

self.addEventListener('fetch', (event) => {
  const { request } = event;
  const url = new URL(request.url);
  if (request.method !== 'GET' || request.headers.has('range')) return;
  if (url.origin !== scope.origin || !url.pathname.startsWith(scope.pathname)) return;
  const path = decodeURIComponent(url.pathname.slice(scope.pathname.length));
  if (path === '' || files.includes(path) || path.startsWith('example/')) event.respondWith(answer(request, path));
});
