import { getRouteApi } from "@tanstack/react-router";
import type { ReactElement, ReactNode } from "react";
import { PlainText } from "../../components/plain-text.tsx";
import { Section } from "../../components/section.tsx";
import { EmptyState } from "../../components/states.tsx";
import { type RawSearch, textOf } from "../../search.ts";
import { FindingList } from "./findings.tsx";
import { useShownRun } from "./layout.tsx";

const route = getRouteApi("/runs/$run/rule");

interface RuleSearch {
  readonly code?: string | undefined;
}

export function ruleSearch(raw: RawSearch): RuleSearch {
  return { code: textOf(raw["code"]) };
}

/** The page of a code: why it matters, what to do, an example, what it rests on, and where the run has it. */
export function RuleView(): ReactElement {
  const { id, findings, rules = {} } = useShownRun();
  const { code = "" } = route.useSearch();
  const rule = Object.hasOwn(rules, code) ? rules[code] : undefined;
  if (rule === undefined) return <EmptyState title="The run has no finding with this code" />;
  const { severity, title, why, fix, bad, good, source } = rule;
  return (
    <>
      <Section title={title} aside={<code className="text-muted">{code}</code>}>
        <div className="panel max-w-prose space-y-2 p-3 break-words">
          <p>
            {why} <span className="text-muted">({severity})</span>
          </p>
          <p>
            <span className="text-muted">What to do: </span>
            {fix}
          </p>
          <Example name="Bad" text={bad} />
          <Example name="Good" text={good} />
          <p>
            <span className="text-muted">Source: </span>
            {withLinks(source)}
          </p>
        </div>
      </Section>
      <FindingList run={id} title="In this run" findings={findings.filter((each) => each.code === code)} />
    </>
  );
}

function Example({ name, text }: { readonly name: string; readonly text: string }): ReactElement {
  return (
    <div>
      <span className="text-muted text-xs">{name}</span>
      <pre className="bg-raised rounded px-2 py-1 break-words whitespace-pre-wrap">
        <PlainText text={text} />
      </pre>
    </div>
  );
}

/** A source with links to issues, OWNER/REPOSITORY#NUMBER, and to addresses. */
function withLinks(source: string): readonly ReactNode[] {
  return source.split(/([\w.-]+\/[\w.-]+#\d+|https:\/\/\S+)/u).map((part, index) => {
    if (index % 2 === 0) return part;
    const href = part.startsWith("https:") ? part : `https://github.com/${part.replace("#", "/issues/")}`;
    return (
      <a key={part} href={href} rel="noreferrer">
        {part}
      </a>
    );
  });
}
