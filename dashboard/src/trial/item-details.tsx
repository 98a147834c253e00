import { Link } from "@tanstack/react-router";
import { type ReactElement, type ReactNode, useState } from "react";
import type { Excerpt, Media, TraceItem } from "../../../src/report/documents/documents.ts";
import { ExcerptView } from "../components/excerpt-view.tsx";
import { PlainText } from "../components/plain-text.tsx";
import { VerdictBadge } from "../components/verdict-badge.tsx";
import { formatDuration, formatNumber } from "../format.ts";
import { useDataSource } from "../queries.ts";
import { wasRightlyRefused } from "./items.ts";
import type { Grade, Usage } from "../../../src/model/grade.ts";

interface Place {
  readonly run: string;
  readonly trial: string;
}

/** All that is known of one item. */
export function ItemDetails({
  place,
  item,
  origin,
  event,
  grades,
  onClose,
}: {
  readonly place: Place;
  readonly item: TraceItem;
  /** The zero of the times that are shown. */
  readonly origin: number;
  /** The number of the event that was asked for; it may be in the middle of the item. */
  readonly event: number | undefined;
  readonly grades: readonly Grade[];
  readonly onClose: () => void;
}): ReactElement {
  const events = [...new Set([item.seq, event, item.endSeq])].filter((seq) => seq !== undefined);
  return (
    <div className="@container min-w-0" data-testid="details">
      <div className="mb-2 flex items-start justify-between gap-2">
        <h2 className="min-w-0 text-base font-semibold break-words">
          <PlainText text={titleOf(item)} />
        </h2>
        <button type="button" className="control shrink-0" onClick={onClose} aria-label="Close the details">
          ✕
        </button>
      </div>
      <dl className="mb-3 flex flex-wrap gap-x-4 gap-y-0.5 lg:grid lg:grid-cols-[max-content_minmax(0,1fr)] lg:gap-x-3">
        <Fact name="At">{formatDuration(item.at - origin)}</Fact>
        {item.durationMs !== undefined && <Fact name="Took">{formatDuration(item.durationMs)}</Fact>}
        {item.phase !== undefined && <Fact name="Phase">{item.phase}</Fact>}
        {item.turn !== undefined && <Fact name="Turn">{item.turn + 1}</Fact>}
        {item.step !== undefined && (
          <Fact name="Step">
            <PlainText text={item.step} />
          </Fact>
        )}
        <Facts item={item} />
        <Fact name={events.length === 1 ? "Event" : "Events"}>
          {events.map((seq, index) => (
            <span key={seq}>
              {index > 0 && ", "}
              <Link
                to="/runs/$run/trials/$trial"
                params={place}
                search={{ view: "events", event: seq }}
                aria-label={`Event ${seq} as it was recorded`}
              >
                {seq}
              </Link>
            </span>
          ))}
        </Fact>
      </dl>
      <Contents place={place} item={item} />
      {grades.length > 0 && (
        <Section title="Evidence of">
          <ul className="space-y-1">
            {grades.map((grade) => (
              <li key={grade.grader + grade.reason} className="break-words">
                <VerdictBadge status={grade.verdict} />{" "}
                <PlainText text={grade.grader} className="font-medium" /> <PlainText text={grade.reason} />
              </li>
            ))}
          </ul>
        </Section>
      )}
    </div>
  );
}

function titleOf(item: TraceItem): string {
  switch (item.kind) {
    case "phase":
      return `Phase ${item.name}`;
    case "turn":
      return item.by === undefined ? "User" : "Simulated user";
    case "message":
      return "Agent";
    case "call":
      return item.tool;
    case "step":
      return item.name;
    case "request":
      return item.method;
    case "output":
      return `${item.from}, ${item.stream}`;
    case "model":
      return item.model;
    case "event":
      return item.type;
  }
}

/** What is known of an item in a few words. */
function Facts({ item }: { readonly item: TraceItem }): ReactNode {
  switch (item.kind) {
    case "call":
      return (
        <>
          <Fact name="Tool of">
            <PlainText text={item.server ?? sourceWords[item.source]} />
          </Fact>
          <Fact name="Called by">{item.byAgent ? "the agent" : "a step"}</Fact>
          <Fact name="Outcome">
            {wasRightlyRefused(item) ? (
              "refused, as it should be"
            ) : (
              <span className={callTones[item.status]}>{callWords[item.status]}</span>
            )}
          </Fact>
        </>
      );
    case "step":
      return (
        <>
          <Fact name="Type">{item.stepType}</Fact>
          {item.attempt > 1 && <Fact name="Attempt">{item.attempt}</Fact>}
          <Fact name="Outcome">{item.outcome ?? "not ended"}</Fact>
        </>
      );
    case "request":
      return (
        <Fact name={item.direction === "client-to-server" ? "To" : "From"}>
          <PlainText text={item.server} />
        </Fact>
      );
    case "model":
      return (
        <>
          <Fact name="Purpose">{item.purpose}</Fact>
          {item.usage !== undefined && <Fact name="Tokens">{usageText(item.usage)}</Fact>}
          {item.finishReason !== undefined && (
            <Fact name="Ended">
              <PlainText text={item.finishReason} />
            </Fact>
          )}
        </>
      );
    case "turn":
      return item.reason === undefined ? null : <Fact name="Ended">{item.reason}</Fact>;
    case "phase":
    case "message":
    case "output":
    case "event":
      return null;
  }
}

const sourceWords = {
  server: "a server",
  builtin: "the agent itself (builtin)",
  skill: "a skill",
  unknown: "unknown",
} as const;
const callWords = { ok: "succeeded", error: "failed", rejected: "refused", pending: "not known" } as const;
const callTones = {
  ok: "text-pass",
  error: "text-fail",
  rejected: "text-fail",
  pending: "text-muted",
} as const;

function usageText({ inputTokens, outputTokens, cacheReadTokens }: Usage): string {
  const cached = cacheReadTokens === undefined ? "" : ` (${formatNumber(cacheReadTokens)} from a cache)`;
  return `${formatNumber(inputTokens)} in${cached}, ${formatNumber(outputTokens)} out`;
}

/** The texts of an item. */
function Contents({ place, item }: { readonly place: Place; readonly item: TraceItem }): ReactNode {
  const view = (title: string, excerpt: Excerpt | undefined): ReactNode =>
    excerpt === undefined ? null : (
      <Section title={title}>
        {/* Another excerpt begins with its own first part. */}
        <ExcerptView key={`${excerpt.seq} ${excerpt.pointer}`} {...place} excerpt={excerpt} />
      </Section>
    );
  switch (item.kind) {
    case "turn":
      return (
        <>
          {view(item.by === undefined ? "Prompt" : "Words of the simulated user", item.user)}
          <Problem text={item.problem} />
        </>
      );
    case "message":
      return view("Message", item.text);
    case "output":
      return view("Output", item.text);
    case "call":
      return (
        <>
          <div className="grid gap-x-4 @2xl:grid-cols-2">
            <div className="min-w-0">
              {view("Arguments", item.args)}
              <Validity invalid={item.invalid} />
            </div>
            <div className="min-w-0">
              {item.media?.map((media) => (
                <MediaView key={media.pointer} place={place} media={media} />
              ))}
              {view("Result", item.result)}
            </div>
          </div>
          <Problem text={item.error} />
          {item.unrecorded === true && (
            <Problem text="The agent reports this call, but no server received it." />
          )}
          {item.fault !== undefined && <Problem text={`Injected fault: ${item.fault}`} />}
        </>
      );
    case "step":
      return (
        <>
          {view("Input", item.input)}
          {item.checks.length > 0 && (
            <Section title="Checks">
              <ul className="space-y-1">
                {item.checks.map(({ name, passed, message }) => (
                  <li key={`${name} ${message}`} className="break-words">
                    <VerdictBadge status={passed ? "pass" : "fail"} />{" "}
                    <PlainText text={message === "" ? name : message} />
                  </li>
                ))}
              </ul>
            </Section>
          )}
          {view("Outputs", item.outputs)}
          <Problem text={item.error} />
        </>
      );
    case "request":
      return (
        <>
          {view("Parameters", item.params)}
          {view("Result", item.result)}
          <Problem text={item.error} />
        </>
      );
    case "event":
      return (
        <p className="break-words whitespace-pre-wrap">
          <PlainText text={item.text} />
        </p>
      );
    case "model":
      return <Problem text={item.retried} />;
    case "phase":
      return null;
  }
}

/** Whether the arguments of a call fit the schema of its tool, where that is known. */
function Validity({
  invalid,
}: {
  readonly invalid: Extract<TraceItem, { kind: "call" }>["invalid"];
}): ReactNode {
  if (invalid === undefined) return null;
  if (invalid.length === 0)
    return <p className="text-pass mb-3 text-xs">The arguments fit the schema of the tool.</p>;
  return (
    <ul className="text-fail mb-3 text-xs" aria-label="What does not fit the schema of the tool">
      {invalid.map(({ pointer, problem }) => (
        <li key={pointer + problem} className="break-words">
          {pointer !== "" && (
            <>
              <PlainText text={pointer} className="font-mono" />:{" "}
            </>
          )}
          <PlainText text={problem} />
        </li>
      ))}
    </ul>
  );
}

/** Types that browsers show without running anything of them. */
const shownTypes =
  /^(?:image\/(?:png|jpeg|gif|webp|avif|bmp)|audio\/(?:wav|x-wav|mpeg|mp3|mp4|ogg|webm|flac|aac))$/i;
/** In characters of base64. */
const maxMediaSize = 20_000_000;
const partLength = 1_000_000;

/** An image or a sound from a server, shown when asked for. */
function MediaView({ place, media }: { readonly place: Place; readonly media: Media }): ReactElement {
  const { content } = useDataSource();
  const [url, setUrl] = useState<string>();
  const [problem, setProblem] = useState<string>();
  const canShow = shownTypes.test(media.mimeType) && media.length <= maxMediaSize;

  async function load(): Promise<void> {
    try {
      let text = "";
      while (text.length < media.length) {
        const { seq, pointer } = media;
        const part = await content({ ...place, seq, pointer, from: text.length, length: partLength });
        if (part.text === "") break;
        text += part.text;
      }
      setUrl(`data:${media.mimeType};base64,${text.replaceAll(/[^A-Za-z0-9+/=]/g, "")}`);
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
  }

  return (
    <Section title={media.type === "image" ? "Image" : "Sound"}>
      <p className="text-muted text-xs">
        <PlainText text={media.mimeType} />, {formatNumber(Math.floor((media.length * 3) / 4))} bytes
        {!canShow && ", a type or a size that is not shown here"}
      </p>
      {canShow && url === undefined && (
        <button type="button" className="control mt-1" onClick={() => void load()}>
          {media.type === "image" ? "Show the image" : "Load the sound"}
        </button>
      )}
      {url !== undefined && media.type === "image" && (
        <img
          src={url}
          alt="From the result of the tool"
          className="border-line mt-1 max-h-96 max-w-full border object-contain"
          onError={() => setProblem("The browser cannot read this image.")}
        />
      )}
      {url !== undefined && media.type === "audio" && (
        // A server's sound comes without captions.
        // oxlint-disable-next-line jsx-a11y/media-has-caption
        <audio
          controls
          src={url}
          className="mt-1 w-full"
          onError={() => setProblem("The browser cannot read this sound.")}
        />
      )}
      <Problem text={problem} />
    </Section>
  );
}

function Section({
  title,
  children,
}: {
  readonly title: string;
  readonly children: ReactNode;
}): ReactElement {
  return (
    <section className="mb-3 min-w-0">
      <h3 className="text-muted mb-1 text-xs font-semibold">{title}</h3>
      {children}
    </section>
  );
}

function Fact({ name, children }: { readonly name: string; readonly children: ReactNode }): ReactElement {
  return (
    // Beside the list one fact a line; on a phone as many as fit.
    <div className="flex max-w-full gap-x-1.5 lg:contents">
      <dt className="text-muted">{name}</dt>
      <dd className="min-w-0 break-words">{children}</dd>
    </div>
  );
}

function Problem({ text }: { readonly text: string | undefined }): ReactNode {
  if (text === undefined) return null;
  return (
    <p className="text-fail mb-3 break-words whitespace-pre-wrap">
      <PlainText text={text} />
    </p>
  );
}
