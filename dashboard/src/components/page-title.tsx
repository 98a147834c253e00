import { type ReactElement, type ReactNode, useEffect } from "react";
import { shortened, visibleOnPage } from "../../../src/base/visible-text.ts";
import { PlainText } from "./plain-text.tsx";

/** The heading of a page, and the title of its window. */
export function PageTitle({
  title,
  children,
}: {
  readonly title: string;
  /** What stands beside it. */
  readonly children?: ReactNode;
}): ReactElement {
  useEffect(() => {
    document.title = `${visibleOnPage(shortened(title, 200))} · mcpvals`;
  }, [title]);
  return (
    <div className="mb-3 flex flex-wrap items-center gap-x-3 gap-y-1">
      <h1 className="min-w-0 text-xl font-semibold break-words">
        <PlainText text={title} />
      </h1>
      {children}
    </div>
  );
}
