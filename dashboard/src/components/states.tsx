import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactElement, ReactNode } from "react";
import { useIsOffline } from "../connection.ts";
import { PlainText } from "./plain-text.tsx";

/** Says that there is nothing here, why, and what to do. */
export function EmptyState({
  title,
  children,
}: {
  readonly title: string;
  readonly children?: ReactNode;
}): ReactElement {
  return (
    <div className="text-muted mx-auto flex max-w-prose flex-col items-center gap-2 px-4 py-10 text-center">
      <p className="text-ink font-medium">{title}</p>
      {children}
    </div>
  );
}

export function ErrorState({
  error,
  onRetry,
}: {
  readonly error: Error;
  readonly onRetry?: () => void;
}): ReactElement {
  return (
    <div role="alert" className="panel border-fail mx-auto mb-4 max-w-prose p-4">
      <p className="text-fail mb-1 font-medium">This could not be loaded</p>
      <p className="break-words">
        <PlainText text={error.message} />
      </p>
      {onRetry !== undefined && (
        <button type="button" className="control mt-3" onClick={onRetry}>
          Try again
        </button>
      )}
    </div>
  );
}

function Loading({ what }: { readonly what: string }): ReactElement {
  return <output className="text-muted block px-4 py-10 text-center">Loading {what}…</output>;
}

/** What a query has, that it is under way, or why it failed; both where it has something and could not renew it. */
export function Loaded<T>({
  query,
  what,
  children,
}: {
  readonly query: UseQueryResult<T>;
  /** As in "Loading …". */
  readonly what: string;
  readonly children: (data: T) => ReactNode;
}): ReactNode {
  const { data, error } = query;
  const isOffline = useIsOffline();
  if (data === undefined && error === null) return <Loading what={what} />;
  return (
    <>
      {/* Above the page it says that the dashboard does not answer. */}
      {error !== null && !(isOffline && data !== undefined) && (
        <ErrorState error={error} onRetry={() => void query.refetch()} />
      )}
      {data !== undefined && children(data)}
    </>
  );
}
