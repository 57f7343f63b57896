// Dark or light: as the system says, or as the switch does. Only this choice is remembered by the browser.

import { effect, signal } from '@preact/signals';

export type Choice = 'system' | 'light' | 'dark';

const PLACE = 'lockhouse-theme';
const system = matchMedia('(prefers-color-scheme: dark)');

/** What the switch says. */
export const choice = signal<Choice>(remembered());

/** What is shown. */
export const theme = signal<'light' | 'dark'>(shown());

function shown(): 'light' | 'dark' {
  if (choice.value === 'system') return system.matches ? 'dark' : 'light';
  return choice.value;
}

system.addEventListener('change', () => {
  theme.value = shown();
});

effect(() => {
  document.documentElement.dataset.theme = choice.value;
  theme.value = shown();
  try {
    if (choice.value === 'system') localStorage.removeItem(PLACE);
    else localStorage.setItem(PLACE, choice.value);
  } catch {
    // Without storage the choice lasts as long as the page.
  }
});

function remembered(): Choice {
  try {
    const kept = localStorage.getItem(PLACE);
    return kept === 'light' || kept === 'dark' ? kept : 'system';
  } catch {
    return 'system';
  }
}

/** The next position of the switch. */
export function turn(): void {
  choice.value = theme.value === 'dark' ? 'light' : 'dark';
}
