import { shortened } from "../../core/text/shortened.ts";
/** Pages that a list may have; with a hundred items on each, a hundred thousand items. */
const mostPages = 1000;

/** The cursors of a list that is asked for page by page: a server must not keep us asking for ever. */
export class PageCursors {
  readonly #seen = new Set<string>();

  /** Why the page of a cursor is not asked for; undefined when it is. */
  problemOf(method: string, cursor: string): string | undefined {
    if (this.#seen.has(cursor))
      return `${method} goes in circles: the cursor ${JSON.stringify(shortened(cursor, 200))} comes twice`;
    this.#seen.add(cursor);
    return this.#seen.size < mostPages ? undefined : `${method} has more than ${mostPages} pages`;
  }
}
