import { type APIRequestContext, expect } from "@playwright/test";

interface Found {
  messages: { ID: string; Subject: string }[];
}

interface Mail {
  Subject: string;
  Text: string;
  HTML: string;
}

/** The server's development mailbox. */
export class Mailbox {
  readonly #request: APIRequestContext;

  constructor(request: APIRequestContext) {
    this.#request = request;
  }

  /** Waits for a mail to this address other than `unlike`; returns its text and link. */
  async latest(to: string, unlike?: string) {
    let mail: Mail | null = null;
    await expect
      .poll(
        async () => {
          const { messages } = await this.#get<Found>(`search?query=${encodeURIComponent(`to:${to}`)}`);
          const newest = messages[0];
          mail = newest ? await this.#get<Mail>(`message/${newest.ID}`) : null;
          return mail !== null && linkIn(mail) !== unlike;
        },
        { message: `a mail to ${to}` },
      )
      .toBe(true);
    if (!mail) throw new Error("unreachable: polled until there is one");
    const { Subject: subject, Text: text } = mail as Mail;
    return { subject, text, link: linkIn(mail) };
  }

  async count(to: string) {
    return (await this.#get<Found>(`search?query=${encodeURIComponent(`to:${to}`)}`)).messages.length;
  }

  async #get<Content>(path: string) {
    const response = await this.#request.get(`/mailbox/api/v1/${path}`);
    expect(response.status(), `GET ${path}`).toBe(200);
    return (await response.json()) as Content;
  }
}

function linkIn({ Text: text }: Mail) {
  const link = /https?:\/\/\S+/.exec(text)?.[0];
  if (!link) throw new Error(`No link in the mail:\n${text}`);
  return link;
}
