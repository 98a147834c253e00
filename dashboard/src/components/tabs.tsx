import { Tabs as BaseTabs } from "@base-ui/react/tabs";
import type { ReactElement, ReactNode } from "react";

export interface Tab<Id extends string> {
  readonly id: Id;
  readonly title: ReactNode;
  readonly content: ReactNode;
}

/** Views of one thing, of which one is shown: chosen with a click or the arrow keys. */
export function Tabs<Id extends string>({
  label,
  tabs,
  selected,
  onSelect,
}: {
  readonly label: string;
  readonly tabs: readonly Tab<Id>[];
  readonly selected: Id;
  readonly onSelect: (id: Id) => void;
}): ReactElement {
  return (
    <BaseTabs.Root value={selected} onValueChange={(id: Id) => onSelect(id)}>
      <BaseTabs.List
        aria-label={label}
        className="border-line flex gap-1 overflow-x-auto overflow-y-hidden border-b"
      >
        {tabs.map(({ id, title }) => (
          <BaseTabs.Tab key={id} value={id} className={tabStyle}>
            {title}
          </BaseTabs.Tab>
        ))}
      </BaseTabs.List>
      {tabs.map(({ id, content }) => (
        <BaseTabs.Panel key={id} value={id} className="pt-3">
          {id === selected && content}
        </BaseTabs.Panel>
      ))}
    </BaseTabs.Root>
  );
}

/** Of a tab, and of a link that looks like one: `aria-selected` or `aria-current` marks the one that is shown. */
export const tabStyle =
  "text-muted hover:text-ink aria-selected:text-ink aria-[current=page]:text-ink aria-selected:border-accent aria-[current=page]:border-accent -mb-px border-b-2 border-transparent px-3 py-2 font-medium whitespace-nowrap no-underline! -outline-offset-2";
