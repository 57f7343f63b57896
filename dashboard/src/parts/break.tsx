import { signal } from '@preact/signals';
import { useState } from 'preact/hooks';
import { access } from '../data/api';
import { breakAll, type Outcome, type Target } from '../data/breaking';
import { refresh } from '../data/live';
import { bucket } from '../data/place';
import type { Entry } from '../data/types';
import { count, words } from '../logic/causes';
import { Dialog } from './dialog';
import { Name, Text } from './name';

/** What is about to be broken; the dialog is there as long as this is. */
const pending = signal<{ targets: readonly Target[]; onDone?: () => void } | undefined>(undefined);

/** Whether actions are offered: until the server has said that they are not permitted. */
export const mayBreak = () => access.mayOperate.value !== false;

/** An entry as a target, if it is one. */
export function targetOf({ name, fencingToken, clientId, kind, state }: Entry): Target[] {
  return state === 'pending' || fencingToken === null ? [] : [{ name, fencingToken, holder: clientId, kind }];
}

/** Asks before anything is broken. */
export function askToBreak(targets: readonly Target[], onDone?: () => void): void {
  if (targets.length > 0) pending.value = onDone ? { targets, onDone } : { targets };
}

/** The button of one entry; nothing where it cannot be broken. */
export function BreakButton({ entry }: { entry: Entry }) {
  const targets = targetOf(entry);
  if (!mayBreak() || targets.length === 0) return null;
  return (
    <button
      type="button"
      class="danger small"
      onClick={(event) => {
        event.stopPropagation();
        askToBreak(targets);
      }}
    >
      {entry.kind === 'assignment' ? 'Take back…' : 'Break…'}
    </button>
  );
}

/** The dialog, wherever it was asked for. */
export function BreakDialog() {
  const asked = pending.value;
  return asked ? <Confirmation key={asked} targets={asked.targets} onDone={asked.onDone} /> : null;
}

const SHOWN = 8;

function Confirmation({ targets, onDone }: { targets: readonly Target[]; onDone: (() => void) | undefined }) {
  const [reason, setReason] = useState('');
  const [outcomes, setOutcomes] = useState<Outcome[] | undefined>();
  const isOver = outcomes?.length === targets.length;
  const close = () => {
    pending.value = undefined;
  };
  const start = async () => {
    setOutcomes([]);
    await breakAll(bucket.peek(), targets, reason.trim(), (more) =>
      setOutcomes((before) => [...(before ?? []), ...more]),
    );
    refresh();
    onDone?.();
  };
  const isTakenBack = targets.every((target) => target.kind === 'assignment');
  const verb = isTakenBack ? 'Take back' : 'Break';
  const noun = isTakenBack ? 'assignment' : 'hold';
  const many = targets.length === 1 ? `this ${noun}` : `${count(targets.length)} ${noun}s`;
  if (outcomes) {
    return (
      <Dialog title={isOver ? 'Result' : 'Under way'} onClose={close}>
        <Results outcomes={outcomes} all={targets.length} done={isTakenBack ? 'taken back' : 'broken'} />
        <footer>
          <button type="button" onClick={close}>
            Close
          </button>
        </footer>
      </Dialog>
    );
  }
  return (
    <Dialog title={`${verb} ${many}?`} onClose={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void start();
        }}
      >
        <ul class="targets">
          {targets.slice(0, SHOWN).map((target) => (
            <li key={target.fencingToken}>
              <strong>
                <Name name={target.name} />
              </strong>
              <span>
                {words(target.kind)} of <Text text={target.holder} />, token <code>{target.fencingToken}</code>
              </span>
            </li>
          ))}
          {targets.length > SHOWN ? <li>and {count(targets.length - SHOWN)} more</li> : null}
        </ul>
        {isTakenBack ? (
          <p>The resources can be claimed again.</p>
        ) : (
          <p>
            The holder is told, but its program may go on until it reacts. Only exactly this token is broken, never a
            successor.
          </p>
        )}
        <label>
          Reason (optional; kept in audit log and history)
          <input value={reason} maxLength={256} onInput={(event) => setReason(event.currentTarget.value)} />
        </label>
        <footer>
          <button type="button" class="quiet" onClick={close}>
            Cancel
          </button>
          <button type="submit" class="danger filled">
            {verb} {many}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

function Results({ outcomes, all, done }: { outcomes: Outcome[]; all: number; done: string }) {
  const of = (result: Outcome['result']) => outcomes.filter((outcome) => outcome.result === result).length;
  const summary = (['broken', 'gone', 'failed', 'unknown'] as const)
    .filter((result) => of(result) > 0)
    .map((result) => `${count(of(result))} ${sayResult(result, done)}`);
  return (
    <>
      <p role="status">
        {outcomes.length < all ? `${count(outcomes.length)} of ${count(all)} done: ` : ''}
        {summary.join(', ')}
      </p>
      <ul class="targets results">
        {outcomes.map(({ target, result, why }) => (
          <li key={target.fencingToken} class={`result-${result}`}>
            <strong>
              <Name name={target.name} />
            </strong>
            <span>
              {sayResult(result, done)}, token <code>{target.fencingToken}</code>
              {why ? <small>{why}</small> : null}
            </span>
          </li>
        ))}
      </ul>
    </>
  );
}

function sayResult(result: Outcome['result'], done: string): string {
  return { broken: done, gone: 'gone before', failed: 'failed', unknown: 'unknown: it may have happened' }[result];
}
