import { signal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import { breakAll, faultOfReason, type Outcome, type Target, targetOf } from '../data/breaking';
import { refresh } from '../data/live';
import { isOperateOffered } from '../data/permission';
import { place } from '../data/place';
import type { Entry } from '../data/types';
import { count, words } from '../logic/causes';
import type { Place } from '../logic/url';
import { Dialog } from './dialog';
import { Name, Text } from './name';

/** What is about to be broken, and where it was shown. */
interface Asked {
  targets: readonly Target[];
  /** The place, with the bucket of the targets. */
  at: Place;
  onDone?: () => void;
}

/** What is about to be broken; the dialog is there as long as this is. */
const pending = signal<Asked | undefined>(undefined);

/** Asks before anything is broken in the present bucket. */
export function askToBreak(targets: readonly Target[], onDone?: () => void): void {
  if (targets.length === 0) return;
  const asked = { targets, at: place.peek() };
  pending.value = onDone ? { ...asked, onDone } : asked;
}

/** The button of one entry; nothing where it cannot be broken. */
export function BreakButton({ entry }: { entry: Entry }) {
  const targets = targetOf(entry);
  if (!isOperateOffered() || targets.length === 0) return null;
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
  return asked ? <Confirmation key={asked} asked={asked} /> : null;
}

const close = () => {
  pending.value = undefined;
};

function Confirmation({ asked }: { asked: Asked }) {
  const { targets, at, onDone } = asked;
  const [left, setLeft] = useState(targets);
  const [reason, setReason] = useState('');
  const [refused, setRefused] = useState<string | undefined>();
  const [isUnderWay, setIsUnderWay] = useState(false);
  const [outcomes, setOutcomes] = useState<Outcome[]>([]);
  const stop = useRef<AbortController>(undefined);
  const [isStopping, setIsStopping] = useState(false);
  const isAsking = !isUnderWay && outcomes.length < targets.length;
  const isElsewhere = place.value !== at;
  // What is confirmed is what is seen: on another page, or in another bucket, it is not.
  useEffect(() => {
    if (isElsewhere && isAsking) close();
  }, [isElsewhere, isAsking]);
  const start = async () => {
    stop.current = new AbortController();
    setIsStopping(false);
    setIsUnderWay(true);
    const more = (some: Outcome[]) => setOutcomes((before) => [...before, ...some]);
    const refusal = await breakAll(at.bucket, left, reason.trim(), more, stop.current.signal);
    setIsUnderWay(false);
    setRefused(refusal?.why);
    refresh();
    if (refusal) setLeft(refusal.left);
    else onDone?.();
  };
  // Nothing goes on unseen: the dialog stays until the portion that is under way has its result.
  const halt = () => {
    stop.current?.abort();
    setIsStopping(true);
  };
  const isTakenBack = targets.every((target) => target.kind === 'assignment');
  if (!isAsking) {
    return (
      <Dialog title={isUnderWay ? 'Under way' : 'Result'} onClose={isUnderWay ? halt : close}>
        <Results outcomes={outcomes} all={targets.length} done={isTakenBack ? 'taken back' : 'broken'} />
        <footer>
          {isUnderWay ? (
            <button type="button" disabled={isStopping} onClick={halt}>
              {isStopping ? 'Stops after this portion…' : 'Stop'}
            </button>
          ) : (
            <button type="button" onClick={close}>
              Close
            </button>
          )}
        </footer>
      </Dialog>
    );
  }
  const what = `${isTakenBack ? 'Take back' : 'Break'} ${many(left, isTakenBack ? 'assignment' : 'hold')}`;
  return (
    <Dialog title={`${what}?`} onClose={close}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          const fault = faultOfReason(reason.trim());
          setRefused(fault);
          if (fault === undefined) void start();
        }}
      >
        {outcomes.length > 0 ? <p>Done so far: {count(outcomes.length)}. These are left.</p> : null}
        <Targets targets={left} bucket={at.bucket} />
        {isTakenBack ? (
          <p>The resources can be claimed again.</p>
        ) : (
          <p>
            The holder is told, but its program may go on until it reacts. Only exactly this token is broken, never a
            successor.
          </p>
        )}
        <Reason reason={reason} onReason={setReason} refused={refused} isTakenBack={isTakenBack} />
        <footer>
          <button type="button" class="quiet" onClick={close}>
            Cancel
          </button>
          <button type="submit" class="danger filled">
            {what}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

const many = (targets: readonly Target[], noun: string) =>
  targets.length === 1 ? `this ${noun}` : `${count(targets.length)} ${noun}s`;

const SHOWN = 8;

function Targets({ targets, bucket }: { targets: readonly Target[]; bucket: string }) {
  return (
    <>
      <p>
        In the bucket <Name name={bucket} />:
      </p>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a list that scrolls is reached by the keyboard */}
      <ul class="targets" tabIndex={0} aria-label="What is meant">
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
    </>
  );
}

function Reason(props: {
  reason: string;
  onReason: (reason: string) => void;
  /** Why it was not taken. */
  refused: string | undefined;
  isTakenBack: boolean;
}) {
  const { reason, onReason, refused, isTakenBack } = props;
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (refused !== undefined) input.current?.focus();
  }, [refused]);
  return (
    <>
      <label>
        Reason
        <input
          ref={input}
          data-first
          value={reason}
          aria-invalid={refused !== undefined}
          aria-describedby="reason-words"
          onInput={(event) => onReason(event.currentTarget.value)}
        />
      </label>
      <p id="reason-words" class={refused === undefined ? 'soft' : 'notice'} role={refused ? 'alert' : undefined}>
        {refused ??
          (isTakenBack
            ? 'It is kept in the audit log alone, and may be left out.'
            : 'The holder, the audit log and the history get it. It may be left out, unless the server asks for one.')}
      </p>
    </>
  );
}

function Results({ outcomes, all, done }: { outcomes: Outcome[]; all: number; done: string }) {
  const of = (result: Outcome['result']) => outcomes.filter((outcome) => outcome.result === result).length;
  const summary = (['broken', 'gone', 'failed', 'unknown', 'left'] as const)
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
  const unknown = 'unknown: it may have happened';
  return { broken: done, gone: 'gone before', failed: 'failed', unknown, left: 'not tried' }[result];
}
