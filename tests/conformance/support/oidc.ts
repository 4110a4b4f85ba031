import { once } from "node:events";
import { createServer, type Server as HttpServer } from "node:http";
import Provider from "oidc-provider";
import { freePort } from "./server";

/** A real OpenID Connect provider, whose users are whoever signs in: `ada` has the verified address `ada@example.org`. */
export class OidcProvider {
  readonly url: string;
  readonly #port: number;
  #server: HttpServer | undefined;

  private constructor(port: number) {
    this.#port = port;
    this.url = `http://127.0.0.1:${port}`;
  }

  static async reserve(): Promise<OidcProvider> {
    return new OidcProvider(await freePort());
  }

  /** Serves; `callback` is the client's redirect URI. */
  async serve(callback: string): Promise<void> {
    const provider = new Provider(this.url, {
      clients: [
        {
          client_id: "app",
          client_secret: "secret",
          redirect_uris: [callback],
          token_endpoint_auth_method: "client_secret_post",
        },
      ],
      claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["name"] },
      conformIdTokenClaims: false,
      findAccount: (_context: unknown, id: string) => ({
        accountId: id,
        claims: () => ({ sub: id, email: `${id}@example.org`, email_verified: true, name: id }),
      }),
    });
    this.#server = createServer(provider.callback()).listen(this.#port, "127.0.0.1");
    await once(this.#server, "listening");
  }

  async stop(): Promise<void> {
    this.#server?.closeAllConnections();
    this.#server?.close();
  }
}

/** A browser without scripts: follows redirects, keeps cookies by origin, and signs in at the provider's pages. */
export class Browser {
  readonly #cookies = new Map<string, Map<string, string>>();

  async #request(url: string, body?: URLSearchParams): Promise<Response> {
    const { origin } = new URL(url);
    const cookies = this.#cookies.get(origin) ?? new Map<string, string>();
    this.#cookies.set(origin, cookies);
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    const response = await fetch(url, {
      method: body ? "POST" : "GET",
      body: body ?? null,
      headers: cookie ? { cookie } : {},
      redirect: "manual",
    });
    for (const line of response.headers.getSetCookie()) {
      const [pair = ""] = line.split(";");
      const [name = "", ...value] = pair.split("=");
      if (/expires=thu, 01 jan 1970|max-age=0/i.test(line)) cookies.delete(name);
      else cookies.set(name, value.join("="));
    }
    return response;
  }

  /** Opens a page, signs in as `login` where asked, and returns the first address that starts with `end`. */
  async signIn(start: string, login: string, end: string): Promise<URL> {
    let url = start;
    let response = await this.#request(url);
    for (let step = 0; step < 20; step++) {
      const location = response.headers.get("location");
      if (location) {
        url = new URL(location, url).href;
        if (url.startsWith(end)) return new URL(url);
        response = await this.#request(url);
        continue;
      }
      const page = await response.text();
      const prompt = /name="prompt" value="(\w+)"/.exec(page)?.[1];
      if (!prompt) throw new Error(`no form at ${url}: ${response.status} ${page.slice(0, 300)}`);
      const form = new URLSearchParams({ prompt, ...(prompt === "login" ? { login, password: "any" } : {}) });
      response = await this.#request(url, form);
    }
    throw new Error(`no end of the redirects at ${url}`);
  }
}
