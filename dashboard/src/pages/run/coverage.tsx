import type { ReactElement, ReactNode } from "react";
import type { Covered } from "../../../../src/model/result.ts";
import { PlainText } from "../../components/plain-text.tsx";
import { Section } from "../../components/section.tsx";
import { EmptyState } from "../../components/states.tsx";
import { formatNumber } from "../../format.ts";
import { useShownRun } from "./layout.tsx";

const kinds = [
  ["tools", "Tools called", "not called"],
  ["parameters", "Parameters used", "not used"],
  ["errors", "Tools seen to fail", "not seen to fail"],
  ["resources", "Resources read", "not read"],
  ["prompts", "Prompts used", "not used"],
] as const;

/** What servers list, and what of it no trial used. */
export function CoverageView(): ReactNode {
  const { coverage = {} } = useShownRun();
  const servers = Object.entries(coverage);
  if (servers.length === 0)
    return (
      <EmptyState title="No coverage was measured">
        <p>No server listed its tools in this run.</p>
      </EmptyState>
    );
  return servers.map(([server, covered]) => (
    <Section
      key={server}
      title={<PlainText text={server} />}
      aside={
        kinds.every(([kind]) => (covered[kind]?.total ?? 0) === 0) && (
          <span className="text-muted">listed nothing</span>
        )
      }
    >
      <div className="panel divide-line divide-y empty:hidden">
        {kinds.map(([kind, title, gap]) => {
          const items = covered[kind];
          return (
            items !== undefined &&
            items.total > 0 && <Kind key={kind} title={title} gap={gap} items={items} />
          );
        })}
      </div>
    </Section>
  ));
}

/** More gaps are shown on demand. */
const maxShownUnused = 40;

function Kind({
  title,
  gap,
  items: { total, unused },
}: {
  readonly title: string;
  /** What items without use are. */
  readonly gap: string;
  readonly items: Covered;
}): ReactElement {
  const used = total - unused.length;
  return (
    <details className="px-3 py-2" open={unused.length > 0 && unused.length <= maxShownUnused}>
      <summary>
        <span className="inline-flex w-[calc(100%-1.5rem)] flex-wrap items-center gap-x-3 gap-y-1 align-top">
          <span className="w-56">{title}</span>
          <span className="w-24 tabular-nums">
            {formatNumber(used)} of {formatNumber(total)} ({Math.floor((100 * used) / total)} %)
          </span>
          <Bar share={total === 0 ? 0 : used / total} />
          <span className="text-muted">
            {unused.length === 0 ? "no gaps" : `${formatNumber(unused.length)} ${gap}`}
          </span>
        </span>
      </summary>
      {unused.length > 0 && (
        <ul className="text-muted mt-1 columns-2 gap-4 pl-4 md:columns-4">
          {unused.map((name) => (
            <li key={name} className="truncate">
              <PlainText text={name} hasTitle />
            </li>
          ))}
        </ul>
      )}
    </details>
  );
}

/** A share as a bar; what stands beside it says it in numbers. */
function Bar({ share }: { readonly share: number }): ReactElement {
  return (
    <span aria-hidden="true" className="bg-raised h-2 w-40 overflow-hidden rounded-full">
      <span className="bg-accent block h-full" style={{ width: `${share * 100}%` }} />
    </span>
  );
}
