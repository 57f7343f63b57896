import type { ComponentChildren } from 'preact';
import type { Ended, Entry } from '../data/types';
import { isForced, words } from '../logic/causes';

/** The discipline of a hold. */
export function KindMark({ kind }: { kind: string }) {
  return <span class={`mark kind-${kind}`}>{words(kind)}</span>;
}

/** Where an entry stands. */
export function StateMark({ entry }: { entry: Pick<Entry, 'state' | 'place'> }) {
  const { state, place } = entry;
  return (
    <span class={`state state-${state}`}>
      {words(state)}
      {place === null ? null : <span class="place"> #{place}</span>}
    </span>
  );
}

/** Why a hold ended, or a wait that never became one. */
export function EndMark({ it: { end, count, kind, fencingToken } }: { it: Ended }) {
  const onlyWaited = kind === 'web' && fencingToken === null && end !== 'refused';
  return (
    <>
      <span class={isForced(end) ? 'mark end forced' : 'mark end'}>{words(end)}</span>
      {count > 1 ? <span class="soft"> ×{count}</span> : null}
      {onlyWaited ? (
        <small class="below" title="It waited, and its wait ended before it held the lock.">
          never held
        </small>
      ) : null}
    </>
  );
}

/** Shared is worth a word; exclusive is what one expects. */
export function ModeMark({ mode }: { mode: string | null }) {
  return mode === null ? null : <span class={`mode mode-${mode}`}>{mode}</span>;
}

/** The discipline, and the mode below it. */
export function KindAndMode({ entry: { kind, mode } }: { entry: Pick<Ended, 'kind' | 'mode'> }) {
  return (
    <>
      <KindMark kind={kind} />
      {mode === null ? null : (
        <span class="below">
          <ModeMark mode={mode} />
        </span>
      )}
    </>
  );
}

/** A page without content, with the command that would fill it. */
export function Empty({ title, children, command }: { title: string; children?: ComponentChildren; command?: string }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children ? <p>{children}</p> : null}
      {command ? (
        <pre>
          <code>{command}</code>
        </pre>
      ) : null}
    </div>
  );
}
