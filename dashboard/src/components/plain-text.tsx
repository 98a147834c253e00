import type { ReactElement } from "react";
import { shortened, visibleOnPage } from "../../../src/core/text/visible-text.ts";

/** In characters: what a page shows of a name, a message or a description, and of a title. */
const longestText = 10_000;
const longestTitle = 1000;

/** Text of a server, a model or a task: characters that hide or turn text are written out, and it does not turn what stands beside it. */
export function PlainText({
  text,
  className,
  hasTitle = false,
  most = longestText,
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
    <bdi className={className} title={hasTitle ? shortened(visible, longestTitle) : undefined}>
      {visible}
    </bdi>
  );
}
