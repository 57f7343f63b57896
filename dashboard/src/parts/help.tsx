import { signal } from '@preact/signals';
import { useEffect, useState } from 'preact/hooks';
import { access, useKey } from '../data/api';
import { toggleLive } from './bar';
import { Dialog } from './dialog';

/** Whether the list of keys is shown. */
export const isHelpOpen = signal(false);

const KEYS: readonly (readonly [string, string])[] = [
  ['/', 'find by exact name'],
  ['↑ ↓', 'through the rows of a table; Page, Home and End too'],
  ['Enter', 'open the row'],
  ['Space', 'choose the row'],
  ['p', 'pause, and go on'],
  ['?', 'this list'],
  ['Esc', 'close'],
];

/** Keys that work on every page. */
export function useShortcuts(): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const { target } = event;
      const isTyping = target instanceof HTMLElement && target.closest('input, select, textarea, dialog') !== null;
      if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === '/') document.getElementById('search')?.focus();
      else if (event.key === '?') isHelpOpen.value = true;
      else if (event.key === 'p') toggleLive();
      else return;
      event.preventDefault();
    };
    document.addEventListener('keydown', onKey);
    return () => document.removeEventListener('keydown', onKey);
  }, []);
}

/** The list of keys. */
export function Help() {
  if (!isHelpOpen.value) return null;
  const close = () => {
    isHelpOpen.value = false;
  };
  return (
    <Dialog title="Keys" onClose={close}>
      <dl class="keys">
        {KEYS.map(([key, what]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <p>
        Times are relative; the exact instant shows on hover. Addresses have the filters, so that they can be shared.
        What is shown goes on by itself every few seconds while the page is seen.
      </p>
    </Dialog>
  );
}

/** Asks for an API key where the server wants one. */
export function KeyDialog() {
  const [text, setText] = useState('');
  const { wanted } = access;
  if (wanted.value === undefined) return null;
  const close = () => {
    wanted.value = undefined;
    setText('');
  };
  return (
    <Dialog title="API key" onClose={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          useKey(text.trim());
          setText('');
        }}
      >
        {wanted.value === '' ? null : (
          <p class="notice" role="alert">
            {wanted.value}
          </p>
        )}
        <label>
          API key or token
          <input
            type="password"
            autocomplete="off"
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </label>
        <p>
          It stays in the memory of this page: it is gone after a reload, and never in the address or in storage.{' '}
          <code>lockhouse key new</code> makes one; the dashboard needs the permission <code>query</code>, and{' '}
          <code>operate</code> to break holds.
        </p>
        <footer>
          <button type="button" class="quiet" onClick={close}>
            Cancel
          </button>
          <button type="submit">Use this key</button>
        </footer>
      </form>
    </Dialog>
  );
}
