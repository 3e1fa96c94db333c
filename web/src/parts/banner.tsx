import { inputs } from '../inputs';
import { openPicked } from '../opening';
import { chooseTheme, themeChoice, type ThemeChoice } from '../theme';
import { Icon } from './icons';

const nextTheme: Record<ThemeChoice, ThemeChoice> = { system: 'light', light: 'dark', dark: 'system' };
const themeWords: Record<ThemeChoice, string> = { system: 'as the system', light: 'light', dark: 'dark' };
const themeIcons = { system: 'auto', light: 'sun', dark: 'moon' } as const;

export function Banner() {
  const choice = themeChoice.value;
  return (
    <header class="banner">
      <a class="wordmark" href="./" aria-label="tftf, to the start">
        <svg viewBox="0 0 18 18" width="18" height="18" aria-hidden="true">
          <path d="M0 0h18v4.5H0z" />
          <path opacity=".66" d="M0 6.5h11V18H0z" />
          <path opacity=".45" d="M13 6.5h5v5h-5z" />
          <path opacity=".3" d="M13 13.5h5V18h-5z" />
        </svg>
        tftf
      </a>
      <p class="promise">
        <Icon name="lock" /> Nothing leaves this machine
      </p>
      {inputs.value.length > 0 && (
        <label class="button quiet">
          <Icon name="plus" /> Open another
          <input class="sr-only" type="file" multiple onChange={(event) => (void openPicked(event.currentTarget.files), (event.currentTarget.value = ''))} />
        </label>
      )}
      <button class="button quiet square" type="button" onClick={() => chooseTheme(nextTheme[choice])} aria-label={`Colours: ${themeWords[choice]}. Change to ${themeWords[nextTheme[choice]]}`} title={`Colours: ${themeWords[choice]}`}>
        <Icon name={themeIcons[choice]} />
      </button>
    </header>
  );
}
