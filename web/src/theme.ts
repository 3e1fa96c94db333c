// Light, dark, or as the system says.
import { computed, effect, signal } from '@preact/signals';

export type ThemeChoice = 'system' | 'light' | 'dark';

const media = matchMedia('(prefers-color-scheme: dark)');
const systemDark = signal(media.matches);
media.addEventListener('change', (event) => {
  systemDark.value = event.matches;
});

const stored = (): ThemeChoice => {
  try {
    const choice = localStorage.getItem('theme');
    return choice === 'light' || choice === 'dark' ? choice : 'system';
  } catch {
    return 'system'; // storage may be forbidden
  }
};

export const themeChoice = signal<ThemeChoice>(stored());
export const isDark = computed(() => (themeChoice.value === 'system' ? systemDark.value : themeChoice.value === 'dark'));

effect(() => {
  document.documentElement.dataset.theme = isDark.value ? 'dark' : 'light';
});

export function chooseTheme(choice: ThemeChoice): void {
  themeChoice.value = choice;
  try {
    localStorage.setItem('theme', choice);
  } catch {
    // Then it holds for this visit.
  }
}
