// The page's Content-Security-Policy, for the server's headers and the built page alike. Fetching is open to https and
// to this machine because people paste addresses; what is fetched is the page's own affair, and tested.
export const contentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self' 'wasm-unsafe-eval'",
  "worker-src 'self'",
  "connect-src 'self' https: http://localhost:* http://127.0.0.1:*",
  "style-src 'self'",
  "font-src 'self'",
  "img-src 'self'",
  "manifest-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
];

// A meta element cannot say who may frame the page.
export const metaPolicy = contentSecurityPolicy.join('; ');
export const headerPolicy = [...contentSecurityPolicy, "frame-ancestors 'none'"].join('; ');
