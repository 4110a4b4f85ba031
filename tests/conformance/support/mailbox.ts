import { url } from "./environment";
import { type Answer, call } from "./http";

export interface Mail {
  subject: string;
  text: string;
  html: string;
  /** The first link of the plain text. */
  link: string;
  /** `token` of the link: what `verifyOtp` takes as `token_hash`. */
  tokenHash: string;
}

interface Found {
  messages: { ID: string; Subject: string }[];
}

/** The server's development mailbox. */
export class Mailbox {
  readonly #server: string;

  constructor(server = url) {
    this.#server = server;
  }

  /** The newest mail to this address, when there are `count` of them. Polls, because mail is sent after the response. */
  async latest(to: string, count = 1): Promise<Mail> {
    const deadline = Date.now() + 30_000;
    for (;;) {
      const { messages } = await this.#find(to);
      const newest = messages[0];
      if (newest && messages.length >= count) return this.#read(newest.ID);
      if (Date.now() > deadline) throw new Error(`${messages.length} of ${count} mails to ${to} came`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  async count(to: string): Promise<number> {
    return (await this.#find(to)).messages.length;
  }

  #find(to: string): Promise<Found> {
    return this.#get<Found>(`search?query=${encodeURIComponent(`to:${to}`)}`);
  }

  async #read(id: string): Promise<Mail> {
    const { Subject, Text, HTML } = await this.#get<{ Subject: string; Text: string; HTML: string }>(`message/${id}`);
    const link = /https?:\/\/\S+/.exec(Text)?.[0] ?? "";
    const tokenHash = link && (new URL(link).searchParams.get("token") ?? "");
    return { subject: Subject, text: Text, html: HTML, link, tokenHash };
  }

  async #get<T>(path: string): Promise<T> {
    const response = await fetch(`${this.#server}/mailbox/api/v1/${path}`);
    if (response.status !== 200) throw new Error(`the mailbox responded with ${response.status} to ${path}`);
    return (await response.json()) as T;
  }
}

/** Opens a link from a mail as a browser does; returns the redirect target. */
export async function follow(link: string): Promise<Answer & { to: URL; fragment: URLSearchParams }> {
  const { pathname, search, origin } = new URL(link);
  const response = await call(pathname + search, { key: null, origin });
  const to = new URL(response.headers.get("location") ?? "about:blank");
  return { ...response, to, fragment: new URLSearchParams(to.hash.replace(/^#/, "")) };
}
