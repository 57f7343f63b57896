// Server-sent events, read from a stream of text.
// https://html.spec.whatwg.org/multipage/server-sent-events.html

/** One event. */
export interface ServerEvent {
  kind: string;
  data: string;
}

/** Reads events from text that comes in any pieces. */
export class EventReader {
  #rest = '';
  #id = '';
  #kind = '';
  #data: string[] = [];

  /** From where a reader that connects again goes on; an event need not have come with it. */
  get lastId(): string {
    return this.#id;
  }

  /** The events that this piece completes. */
  read(text: string): ServerEvent[] {
    const events: ServerEvent[] = [];
    let all = this.#rest + text;
    // A carriage return at the very end may be the first half of a line end.
    const isSplit = all.endsWith('\r');
    if (isSplit) all = all.slice(0, -1);
    const lines = all.split(/\r\n|\n|\r/);
    this.#rest = (lines.pop() ?? '') + (isSplit ? '\r' : '');
    for (const line of lines) {
      if (line !== '') this.#field(line);
      else if (this.#data.length > 0) events.push(this.#take());
      else this.#kind = '';
    }
    return events;
  }

  #field(line: string): void {
    const colon = line.indexOf(':');
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (name === 'data') this.#data.push(value);
    else if (name === 'event') this.#kind = value;
    else if (name === 'id' && !value.includes('\0')) this.#id = value;
  }

  #take(): ServerEvent {
    const event = { kind: this.#kind || 'message', data: this.#data.join('\n') };
    this.#data = [];
    this.#kind = '';
    return event;
  }
}
