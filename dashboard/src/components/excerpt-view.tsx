import { type ReactElement, useEffect, useState } from "react";
import type { Excerpt } from "../../../src/core/view/documents.ts";
import { formatNumber } from "../format.ts";
import { useDataSource } from "../queries.ts";
import { JsonText } from "./json-text.tsx";
import { PlainText } from "./plain-text.tsx";

/** Characters that are asked for at once. */
const partLength = 50_000;

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
      const part = await content({ run, trial, seq, pointer, from, length: partLength });
      setParts([...(parts ?? []), part.text]);
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
            <JsonText key={index} text={text} />
          ) : (
            // oxlint-disable-next-line react/no-array-index-key
            <PlainText key={index} text={text} most={partLength} />
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
