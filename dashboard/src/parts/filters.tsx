import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { change, linkTo, place } from '../data/place';
import { instantOf, localTime } from '../logic/times';
import { usePhone } from './phone';

/** Filters that stand side by side. */
export function Filters({ children, besides = [] }: { children: ComponentChildren; besides?: string[] }) {
  const { params, page } = place.value;
  const isFiltered = Object.keys(params).some((name) => !['cursor', 'page', 'sort', ...besides].includes(name));
  const form = (
    <form class="filters" aria-label="Filters" onSubmit={(event) => event.preventDefault()}>
      {children}
      {isFiltered ? (
        <a class="button quiet clear" href={linkTo(page)}>
          Clear filters
        </a>
      ) : null}
    </form>
  );
  if (!usePhone()) return form;
  return (
    <details class="filter-box" open={isFiltered}>
      <summary>Filters</summary>
      {form}
    </details>
  );
}

const first = { cursor: undefined, page: undefined };

/** A filter that is typed; it counts on Enter and when it is left. */
export function TextFilter(props: {
  name: string;
  label: string;
  placeholder?: string;
  /** What is wrong with a text, in words; nothing if it can be used. */
  fault?: (text: string) => string | undefined;
  /** Whether an instant is meant, in local time. */
  isInstant?: boolean;
}) {
  const { name, label, placeholder, fault, isInstant } = props;
  const param = place.value.params[name] ?? '';
  const given = isInstant ? localTime(param) : param;
  const [text, setText] = useState(given);
  const [why, setWhy] = useState<string | undefined>();
  useEffect(() => setText(given), [given]);
  const rule = `rule-of-${name}`;
  const apply = () => {
    const found = text === '' ? undefined : fault?.(text);
    setWhy(found);
    if (found !== undefined || text === given) return;
    change({ ...first, [name]: text === '' ? undefined : isInstant ? instantOf(text) : text });
  };
  return (
    <div class={isInstant ? 'instant' : undefined}>
      <label>
        {label}
        <input
          type={(isInstant ? 'datetime-local' : 'text') as 'text'}
          step={isInstant ? 1 : undefined}
          name={name}
          value={text}
          placeholder={placeholder}
          autocomplete="off"
          spellcheck={false}
          aria-invalid={why !== undefined}
          aria-describedby={why === undefined ? undefined : rule}
          onInput={(event) => setText(event.currentTarget.value)}
          onBlur={apply}
          onKeyDown={(event) => event.key === 'Enter' && apply()}
        />
      </label>
      {why === undefined ? null : (
        <small id={rule} class="rule" role="alert">
          {why}
        </small>
      )}
    </div>
  );
}

/** A filter that is chosen; `[value, words]` each. */
export function ChoiceFilter({
  name,
  label,
  choices,
}: {
  name: string;
  label: string;
  choices: readonly (readonly [string, string])[];
}) {
  const given = place.value.params[name] ?? '';
  return (
    <label>
      {label}
      <select
        name={name}
        value={given}
        onChange={(event) => change({ ...first, [name]: event.currentTarget.value || undefined })}
      >
        <option value="">any</option>
        {choices.map(([value, words]) => (
          <option key={value} value={value}>
            {words}
          </option>
        ))}
      </select>
    </label>
  );
}
