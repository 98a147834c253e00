import type { ReactElement } from "react";
import { visibleOnPage } from "../../../src/core/text/visible-text.ts";

/** Text of a server, a model or a task: characters that hide or turn text are written out, and it does not turn what stands beside it. */
export function PlainText({
  text,
  className,
  hasTitle = false,
}: {
  readonly text: string;
  readonly className?: string;
  /** Its title repeats it, for where it may be cut off. */
  readonly hasTitle?: boolean;
}): ReactElement {
  const visible = visibleOnPage(text);
  return (
    <bdi className={className} title={hasTitle ? visible : undefined}>
      {visible}
    </bdi>
  );
}
