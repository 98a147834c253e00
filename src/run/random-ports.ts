import { createServer, type Server } from "node:net";
import { once } from "node:events";

/** Free TCP ports on loopback, held until the process that is to use one is started. */
export class RandomPorts implements AsyncDisposable {
  readonly #held = new Map<number, Server>();
  readonly #ports = new Map<string, number>();

  /** Reserves a port for each name. Rejects when the system has none. */
  async reserve(names: readonly string[]): Promise<void> {
    for (const name of names) {
      // Who comes too early is turned away at once: nobody answers here, and an open connection would keep the server.
      const server = createServer((socket) => socket.destroy());
      server.listen(0, "127.0.0.1");
      await once(server, "listening");
      const address = server.address();
      if (address === null || typeof address === "string") throw new Error("a TCP socket has no port");
      this.#held.set(address.port, server);
      this.#ports.set(name, address.port);
    }
  }

  portOf(name: string): number | undefined {
    return this.#ports.get(name);
  }

  /** Lets go of every port whose number stands in one of the texts. */
  async releaseIn(texts: Iterable<string>): Promise<void> {
    if (this.#held.size === 0) return;
    const all = [...texts];
    const wanted = [...this.#held].filter(([port]) => all.some((text) => text.includes(String(port))));
    await Promise.all(wanted.map(([port, server]) => this.#close(port, server)));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#held].map(([port, server]) => this.#close(port, server)));
  }

  async #close(port: number, server: Server): Promise<void> {
    this.#held.delete(port);
    server.close();
    await once(server, "close");
  }
}
