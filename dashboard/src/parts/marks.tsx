import type { ComponentChildren } from 'preact';
import type { Entry } from '../data/types';
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

/** Why a hold ended. */
export function EndMark({ end }: { end: string }) {
  return <span class={isForced(end) ? 'mark end forced' : 'mark end'}>{words(end)}</span>;
}

/** Shared is worth a word; exclusive is what one expects. */
export function ModeMark({ mode }: { mode: string | null }) {
  return mode === null ? null : <span class={`mode mode-${mode}`}>{mode}</span>;
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
