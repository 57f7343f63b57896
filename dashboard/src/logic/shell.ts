// Commands for a shell, as empty pages show them.

import { plain } from './names';
import { DEFAULT_BUCKET } from './url';

/** A text as one word of a shell; what cannot be seen is written as bash, zsh and ksh read it. */
export function quoted(text: string): string {
  if (/^[\w./:@%+,-]+$/.test(text)) return text;
  const escaped = text.replaceAll('\\', '\\\\').replaceAll("'", "\\'");
  const isSeen = plain(text) === text;
  return isSeen ? `'${text.replaceAll("'", "'\\''")}'` : `$'${inCodes(escaped)}'`;
}

const inCodes = (text: string) =>
  [...text].map((it) => (plain(it) === it ? it : `\\U${it.codePointAt(0)?.toString(16).padStart(8, '0')}`)).join('');

/** The option that has a command work in this bucket, with a blank before it; nothing for the usual bucket. */
export function bucketOption(bucket: string): string {
  if (bucket === DEFAULT_BUCKET) return '';
  // A word that begins with a dash would be read as an option.
  return bucket.startsWith('-') ? ` --bucket=${quoted(bucket)}` : ` --bucket ${quoted(bucket)}`;
}
