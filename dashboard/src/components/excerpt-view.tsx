import { type ReactElement, useEffect, useState } from "react";
import { base64Parts } from "../../../src/base/base64.ts";
import type { ContentPart, Excerpt } from "../../../src/report/documents/documents.ts";
import { formatNumber } from "../format.ts";
import { useDataSource } from "../queries.ts";
import { FoldedText } from "./folded-text.tsx";
import { JsonText } from "./json-text.tsx";
import { PlainText } from "./plain-text.tsx";

/** Characters that are asked for at once. */
const partLength = 50_000;
/** Characters of base64 that are asked for at once, and at most for one click. */
const base64Length = 1_000_000;
const maxBase64Length = 20_000_000;
/** Characters that are shown behind it. */
const behindLength = 100;

/** A text that may be large: its beginning, and more of it on demand. */
export function ExcerptView({
  run,
  trial,
  excerpt,
  isOpen = false,
}: {
  readonly run: string;
  readonly trial: string;
  readonly excerpt: Excerpt;
  /** Asks for the text at once. Its length need not be known then. */
  readonly isOpen?: boolean;
}): ReactElement {
  const { content } = useDataSource();
  const [parts, setParts] = useState<readonly string[]>();
  const [problem, setProblem] = useState<string>();
  const [isLoading, setLoading] = useState(false);
  const shown = parts ?? [excerpt.text];
  const length = shown.reduce((sum, part) => sum + part.length, 0);
  const [total, setTotal] = useState(excerpt.length);
  const rest = total - length;
  useEffect(() => {
    if (isOpen) void loadMore();
    // Once: later parts are asked for with the button.
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, []);

  async function loadMore(): Promise<void> {
    setLoading(true);
    setProblem(undefined);
    try {
      const { seq, pointer } = excerpt;
      const from = parts === undefined ? 0 : length;
      const partAt = (start: number, most: number): Promise<ContentPart> =>
        content({ run, trial, seq, pointer, from: start, length: most });
      const part = await partAt(from, partLength);
      let { text } = part;
      // Base64 is folded, so all of it belongs to the part in which it begins.
      const known = lastBase64(text);
      let hasMore = known !== undefined;
      while (hasMore && text.length < maxBase64Length) {
        const next = await partAt(from + text.length, base64Length);
        const { length: more } = restOfBase64(known ?? "", next.text);
        hasMore = next.text !== "" && more === next.text.length;
        // Text after it shows that it is complete.
        text += next.text.slice(0, more + behindLength);
      }
      setParts([...(parts ?? []), text]);
      setTotal(part.length);
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    } finally {
      setLoading(false);
    }
  }

  return (
    <div className="min-w-0">
      <pre
        className="max-h-96 overflow-auto break-words whitespace-pre-wrap"
        // A text that scrolls must be reachable with the keyboard.
        // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex
        tabIndex={0}
      >
        {shown.map((text, index) =>
          excerpt.type === "json" ? (
            // oxlint-disable-next-line react/no-array-index-key
            <JsonText key={index} text={text} isCut={rest > 0 && index === shown.length - 1} />
          ) : (
            // oxlint-disable-next-line react/no-array-index-key
            <FoldedText key={index} text={text} isCut={rest > 0 && index === shown.length - 1} />
          ),
        )}
      </pre>
      {rest > 0 && (
        <button
          type="button"
          className="text-accent mt-1 text-xs hover:underline"
          disabled={isLoading}
          onClick={() => void loadMore()}
        >
          {isLoading ? "Loading…" : `Show more (${formatNumber(rest)} characters left)`}
        </button>
      )}
      {problem !== undefined && (
        <p role="alert" className="text-fail text-xs">
          <PlainText text={problem} />
        </p>
      )}
    </div>
  );
}

/** In characters: enough to tell base64 and its type. */
const enough = 1000;

/** Start and end of the base64 at the end of a text, with some text before it; undefined if the text does not end with base64. */
function lastBase64(text: string): string | undefined {
  const part = base64Parts(text).at(-1);
  if (part?.to !== text.length) return undefined;
  const beginning = part.from + enough;
  return (
    text.slice(Math.max(0, part.from - enough), beginning) +
    text.slice(Math.max(beginning, text.length - enough))
  );
}

/** The part of `next` that continues the base64 at the end of `known`. */
function restOfBase64(known: string, next: string): string {
  const part = base64Parts(known + next).find(({ from, to }) => from < known.length && to > known.length);
  return part === undefined ? "" : next.slice(0, part.to - known.length);
}
