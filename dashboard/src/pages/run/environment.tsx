import type { ReactElement, ReactNode } from "react";
import { JsonText } from "../../components/json-text.tsx";
import { PlainText } from "../../components/plain-text.tsx";
import { Section } from "../../components/section.tsx";
import { useShownRun } from "./layout.tsx";

/** With what the run was made. */
export function EnvironmentView(): ReactElement {
  const { id, environment } = useShownRun();
  const {
    mcpvals,
    node,
    platform,
    judge,
    extensions = [],
    servers,
    taskServers,
    variants,
    agents,
  } = environment;
  return (
    <>
      <Section title="Versions">
        <dl className="panel divide-line divide-y">
          <Fact name="Run">{id}</Fact>
          <Fact name="mcpvals">{mcpvals}</Fact>
          <Fact name="Node.js">{node}</Fact>
          <Fact name="Platform">{platform}</Fact>
          {agents.map(({ name, type, model }) => (
            <Fact key={`agent ${name}`} name="Agent">
              <PlainText text={[name, type, model].filter((each) => each !== undefined).join(", ")} />
            </Fact>
          ))}
          {judge !== undefined && (
            <Fact name="Judge">
              <PlainText text={judge.model} />
            </Fact>
          )}
          {extensions.map(({ name, package: source, version, sandbox }) => (
            <Fact key={`extension ${name}`} name="Extension">
              <PlainText
                text={[name, source, version, `sandbox ${sandbox}`]
                  .filter((each) => each !== undefined)
                  .join(", ")}
              />
            </Fact>
          ))}
        </dl>
      </Section>
      <JsonSection title="Servers" value={servers} />
      {taskServers !== undefined && <JsonSection title="Servers of tasks" value={taskServers} />}
      {variants !== undefined && <JsonSection title="Variants" value={variants} />}
    </>
  );
}

function Fact({ name, children }: { readonly name: string; readonly children: ReactNode }): ReactElement {
  return (
    <div className="flex flex-wrap gap-x-3 px-3 py-1.5">
      <dt className="text-muted w-28">{name}</dt>
      <dd className="min-w-0 break-words">{children}</dd>
    </div>
  );
}

function JsonSection({ title, value }: { readonly title: string; readonly value: object }): ReactElement {
  return (
    <Section title={title}>
      <pre className="panel overflow-x-auto p-3">
        <JsonText text={JSON.stringify(value, undefined, 2)} />
      </pre>
    </Section>
  );
}
