// Resource names are sequences of 16-bit code units, lone surrogates included. In URLs they are
// percent-encoded WTF-8, as in the HTTP API; browsers' own functions refuse or replace what is no UTF-8.

/** The name as part of a URL. */
export function encodeName(name: string): string {
  let out = '';
  for (const character of name) {
    const code = character.codePointAt(0) ?? 0;
    out += isSurrogate(code) ? percent(threeBytes(code)) : encodeURIComponent(character);
  }
  return out;
}

/** The name that a part of a URL means; a byte that is no WTF-8 becomes U+FFFD. */
export function decodeName(text: string): string {
  const bytes: number[] = [];
  for (let at = 0; at < text.length; at++) {
    const hex = text.slice(at + 1, at + 3);
    if (text[at] === '%' && /^[0-9a-fA-F]{2}$/.test(hex)) {
      bytes.push(Number.parseInt(hex, 16));
      at += 2;
    } else if (text[at] === '+') {
      bytes.push(0x20);
    } else {
      const character = String.fromCodePoint(text.codePointAt(at) ?? 0);
      bytes.push(...new TextEncoder().encode(character));
      at += character.length - 1;
    }
  }
  return decodeBytes(bytes);
}

/** A part of a name as it is shown: characters that cannot be seen, or that move others, are written out. */
export interface Piece {
  text: string;
  isEscape: boolean;
}

/** The name as it is shown; no piece for the empty name. */
export function pieces(name: string): Piece[] {
  const found: Piece[] = [];
  for (const character of name) {
    const code = character.codePointAt(0) ?? 0;
    const isEscape = isSurrogate(code) || INVISIBLE.test(character);
    const text = isEscape ? `\\u{${code.toString(16)}}` : character;
    const last = found.at(-1);
    if (last && last.isEscape === isEscape && !isEscape) last.text += text;
    else found.push({ text, isEscape });
  }
  return found;
}

/** The name in one line of plain text, for labels and titles. */
export function plain(name: string): string {
  return name === ''
    ? '(empty name)'
    : pieces(name)
        .map((piece) => piece.text)
        .join('');
}

/** A text of several lines as plain text that keeps its lines. */
export const plainLines = (text: string): string =>
  text
    .split('\n')
    .map((line) => (line === '' ? '' : plain(line)))
    .join('\n');

/** Controls, separators and formats: among them all that turn the direction of text. */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}]/u;

const isSurrogate = (code: number) => code >= 0xd800 && code <= 0xdfff;

const threeBytes = (code: number) => [0xe0 | (code >> 12), 0x80 | ((code >> 6) & 0x3f), 0x80 | (code & 0x3f)];

const percent = (bytes: number[]) => bytes.map((byte) => `%${byte.toString(16).toUpperCase()}`).join('');

function decodeBytes(bytes: number[]): string {
  let out = '';
  for (let at = 0; at < bytes.length; ) {
    const first = bytes[at] ?? 0;
    const length = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
    const rest = bytes.slice(at + 1, at + length);
    const isWhole = length > 0 && rest.length === length - 1 && rest.every((byte) => (byte & 0xc0) === 0x80);
    const start = length === 1 ? first : first & (0xff >> (length + 1));
    const code = rest.reduce((sum, byte) => (sum << 6) | (byte & 0x3f), start);
    const least = [0, 0, 0x80, 0x800, 0x10000][length] ?? 0;
    if (isWhole && code >= least && code <= 0x10ffff) {
      out += String.fromCodePoint(code);
      at += length;
    } else {
      out += '\ufffd';
      at += 1;
    }
  }
  return out;
}
