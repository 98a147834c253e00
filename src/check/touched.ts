import { type Exchange, perObject } from "../trace/trajectory.ts";
import { type EventOf, eventsOf } from "../model/event.ts";
import { type CheckView, exchangesOf, type Found, type ProbeView, resultOf } from "./check-view.ts";
import { hasSucceeded } from "./calls.ts";
import { type Planned, placeOfPlanned, plannedMethods } from "./planned-requests.ts";

/** Something that a server touched, as it is on record. */
export type Access = EventOf<"server.access">;

/** What a server did that touched something, as the beginning of a sentence. */
const doing: Readonly<Record<Access["access"], string>> = {
  read: "it read",
  write: "it wrote",
  delete: "it deleted",
  run: "it started",
  connect: "it connected to",
  resolve: "it looked up",
};

const trying: typeof doing = {
  read: "it tried to read",
  write: "it tried to write",
  delete: "it tried to delete",
  run: "it tried to start",
  connect: "it tried to connect to",
  resolve: "it tried to look up",
};

/** Probes in which one thing is the reason for what happens: a start, a call or a read. */
export function attributed({ probes }: CheckView): readonly ProbeView[] {
  return probes.filter(({ probe }) => probe !== "all-tools");
}

/** Those of them in which nothing hostile was sent. */
export function ordinary(view: CheckView): readonly ProbeView[] {
  return attributed(view).filter(({ probe }) => probe !== "attack");
}

/** Probes in which a request without hostile arguments succeeded. */
export function workingProbes(view: CheckView): readonly ProbeView[] {
  return ordinary(view).filter(({ exchanges }) =>
    exchangesOf(exchanges, ...plannedMethods).some((exchange) => hasSucceeded(resultOf(exchange))),
  );
}

/** What a probe called or read. */
export function plannedIn({ call, read }: ProbeView): Planned | undefined {
  return call ?? read;
}

/** The same as the place of what is found. */
export function placeOf(probe: ProbeView): Pick<Found, "place"> {
  const planned = plannedIn(probe);
  return planned === undefined ? {} : { place: placeOfPlanned(planned) };
}

/** The same as a key of maps and sets. */
export function placeKey(probe: ProbeView): string {
  return JSON.stringify(placeOf(probe).place ?? {});
}

/** The request that was planned, in a probe of one. */
export function plannedExchange({ exchanges }: ProbeView): Exchange | undefined {
  return exchangesOf(exchanges, ...plannedMethods)[0];
}

/** When something happened in a probe, as the end of a sentence; "" in a call. */
export function when(probe: ProbeView): string {
  return plannedIn(probe) === undefined ? " when it started" : "";
}

/** Whether the server was only started and asked what it lists. */
export function isStart({ probe }: ProbeView): boolean {
  return probe === "start" || probe === "other-client";
}

/** What the server touched in a probe; in a call without what it touches at each start. */
export function touchedIn(view: CheckView, probe: ProbeView): readonly Access[] {
  const events = eventsOf(probe.events, "server.access");
  if (isStart(probe)) return events;
  const known = startKeys(view);
  return events.filter((event) => !known.has(keyOf(event)));
}

/** What happens at each start, which no call is the reason of. */
const startKeys = perObject(
  ({ probes }: CheckView): ReadonlySet<string> =>
    new Set(probes.filter(isStart).flatMap(({ events }) => eventsOf(events, "server.access").map(keyOf))),
);

function keyOf({ access, target }: Access): string {
  return `${access} ${target}`;
}

/** What an access shows. */
export function aboutAccess(probe: ProbeView, event: Access): Found {
  const exchange = plannedExchange(probe);
  return {
    ...placeOf(probe),
    message: whatHappened(event),
    evidence: [...(exchange === undefined ? [] : [exchange.request.seq]), event.seq],
  };
}

/** What an access is in words. */
export function whatHappened(event: Access): string {
  const { access, failed } = event;
  const target = stableTarget(event);
  return failed === undefined ? `${doing[access]} ${target}` : `${trying[access]} ${target} (${failed})`;
}

/** A target, with a star for what looks random in the name of a file that was written: each check would have another. */
export function stableTarget({ access, target }: Access): string {
  return access === "write" || access === "delete" ? target.replaceAll(randomPart, "*") : target;
}

const randomPart = /[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|[0-9a-f]{12,}|\d{8,}/gi;
