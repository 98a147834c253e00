import type { HttpAddress } from "../hosts/host.ts";
import type { Channel, ChannelListener } from "../wire.ts";
import { EventsChannel } from "./events-channel.ts";
import { StreamableChannel } from "./streamable-channel.ts";

/**
 * Begins an exchange with a server over HTTP, for a client that speaks messages: their texts go there and come back as
 * they are. Nothing is sent before the first message, but for the older transport, which has to be asked where to.
 */
export function openHttpChannel(server: string, address: HttpAddress, listener: ChannelListener): Channel {
  return address.transport === "sse"
    ? new EventsChannel(server, address, listener)
    : new StreamableChannel(server, address, listener);
}
