import { type APIRequestContext, expect } from "@playwright/test";

interface Found {
  messages: { ID: string; Subject: string }[];
}

interface Mail {
  Subject: string;
  Text: string;
  HTML: string;
}

/** The server's development mailbox, as a person sees it who waits for a mail. */
export class Mailbox {
  readonly #request: APIRequestContext;

  constructor(request: APIRequestContext) {
    this.#request = request;
  }

  /** The latest mail to this address, its words and the link in it. Waits for one; `unlike` is one already seen. */
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

  async #get<Answer>(path: string) {
    const answer = await this.#request.get(`/mailbox/api/v1/${path}`);
    expect(answer.status(), `GET ${path}`).toBe(200);
    return (await answer.json()) as Answer;
  }
}

function linkIn({ Text: text }: Mail) {
  const link = /https?:\/\/\S+/.exec(text)?.[0];
  if (!link) throw new Error(`No link in the mail:\n${text}`);
  return link;
}
