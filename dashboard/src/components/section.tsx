import { type ReactElement, type ReactNode, useId } from "react";

/** A part of a page with a heading. */
export function Section({
  title,
  aside,
  children,
}: {
  readonly title: ReactNode;
  /** What stands at the end of the heading's line. */
  readonly aside?: ReactNode;
  readonly children: ReactNode;
}): ReactElement {
  const id = useId();
  return (
    <section aria-labelledby={id} className="mb-6">
      <div className="mb-2 flex flex-wrap items-baseline gap-x-3">
        <h2 id={id} className="min-w-0 text-base font-semibold break-words">
          {title}
        </h2>
        {aside}
      </div>
      {children}
    </section>
  );
}
