import { type ReactElement, useState } from "react";
import { shortened, visibleOnPage } from "../../../src/base/visible-text.ts";

/** In characters: what a page shows of a name, a message or a description, and of a title. */
const maxShownText = 10_000;
const maxShownTitle = 1000;

/** Text of a server, a model or a task: characters that hide or turn text are written out, and it does not turn what stands beside it. */
export function PlainText({
  text,
  className,
  hasTitle = false,
  most = maxShownText,
}: {
  readonly text: string;
  readonly className?: string;
  /** Its title repeats it, for where it may be cut off. */
  readonly hasTitle?: boolean;
  /** In characters: more is cut off. */
  readonly most?: number;
}): ReactElement {
  const visible = visibleOnPage(shortened(text, most));
  return (
    <bdi className={className} title={hasTitle ? shortened(visible, maxShownTitle) : undefined}>
      {visible}
    </bdi>
  );
}

/** In characters: about two lines of a wide screen. */
const shortText = 300;

/** A text of which only the beginning is shown where it is long, and all of it on demand. */
export function ShortenedText({
  text,
  className,
}: {
  readonly text: string;
  readonly className?: string;
}): ReactElement {
  const [isWhole, setWhole] = useState(false);
  const isLong = text.length > shortText;
  return (
    <>
      <PlainText
        text={text}
        {...(className === undefined ? {} : { className })}
        most={isWhole ? maxShownText : shortText}
      />
      {isLong && (
        <>
          {" "}
          <button
            type="button"
            className="text-accent text-xs hover:underline"
            aria-expanded={isWhole}
            onClick={() => setWhole(!isWhole)}
          >
            {isWhole ? "Show less" : "Show all"}
          </button>
        </>
      )}
    </>
  );
}
