import { linkToName } from '../data/place';
import { pieces, plain } from '../logic/names';

/** A resource name as text: safe, in one direction of its own, with what cannot be seen written out. */
export function Name({ name }: { name: string }) {
  if (name === '') return <em class="empty-name">empty name</em>;
  return (
    <bdi class="name">
      {pieces(name).map((piece) => (piece.isEscape ? <code class="escape">{piece.text}</code> : piece.text))}
    </bdi>
  );
}

/** A resource name as a link to its page. */
export function NameLink({ name }: { name: string }) {
  return (
    <a class="name-link" href={linkToName(name)} title={plain(name)}>
      <Name name={name} />
    </a>
  );
}

/** A label, a client id or any other text of clients. */
export function Text({ text }: { text: string }) {
  if (text === '') return <em class="empty-name">no name</em>;
  return (
    <bdi class="label" title={plain(text)}>
      {pieces(text).map((piece) => (piece.isEscape ? <code class="escape">{piece.text}</code> : piece.text))}
    </bdi>
  );
}
