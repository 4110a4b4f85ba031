import { createHash, generateKeyPairSync, randomBytes, sign } from "node:crypto";

const present = 0x01;
const verified = 0x04;
const attested = 0x40;

/** The options of a ceremony, as far as an authenticator needs them; binary values are base64url or bytes. */
interface Options {
  challenge: string | ArrayBuffer;
  user?: { id: string | ArrayBuffer };
}

const sha256 = (data: string | Buffer) => createHash("sha256").update(data).digest();
const base64url = (value: string | ArrayBuffer) =>
  typeof value === "string" ? value : Buffer.from(value).toString("base64url");

/** A WebAuthn authenticator with one credential, and the browser that runs it. */
export class Authenticator {
  readonly #key = generateKeyPairSync("ec", { namedCurve: "P-256" });
  readonly #id = randomBytes(32);
  #counter = 0;
  #userHandle = "";

  readonly #rpId: string;
  readonly #origin: string;

  constructor(rpId: string, origin: string) {
    this.#rpId = rpId;
    this.#origin = origin;
  }

  #clientData(type: string, { challenge }: Options): Buffer {
    return Buffer.from(
      JSON.stringify({ type, challenge: base64url(challenge), origin: this.#origin, crossOrigin: false }),
    );
  }

  #data(flags: number): Buffer {
    const counter = Buffer.alloc(4);
    counter.writeUInt32BE(++this.#counter);
    return Buffer.concat([sha256(this.#rpId), Buffer.from([flags]), counter]);
  }

  #credential(response: Record<string, unknown>) {
    const id = this.#id.toString("base64url");
    const json = { id, rawId: id, type: "public-key", clientExtensionResults: {}, response };
    return { ...json, toJSON: () => json };
  }

  /** `navigator.credentials.create()`. */
  create(options: Options) {
    this.#userHandle = base64url(options.user?.id ?? "");
    const { x = "", y = "" } = this.#key.publicKey.export({ format: "jwk" });
    const length = Buffer.from([0, this.#id.length]);
    const coordinate = (text: string) => Buffer.from(text, "base64url");
    // A COSE key: EC2, ES256, P-256.
    const data = Buffer.concat([
      this.#data(present | verified | attested),
      Buffer.alloc(16),
      length,
      this.#id,
      Buffer.from("a5010203262001215820", "hex"),
      coordinate(x),
      Buffer.from("225820", "hex"),
      coordinate(y),
    ]);
    const size = Buffer.alloc(2);
    size.writeUInt16BE(data.length);
    // CBOR: {"fmt": "none", "attStmt": {}, "authData": data}.
    const head = Buffer.from("\xa3\x63fmt\x64none\x67attStmt\xa0\x68authData\x59", "latin1");
    return this.#credential({
      clientDataJSON: this.#clientData("webauthn.create", options).toString("base64url"),
      attestationObject: Buffer.concat([head, size, data]).toString("base64url"),
    });
  }

  /** `navigator.credentials.get()`. */
  get(options: Options) {
    const clientData = this.#clientData("webauthn.get", options);
    const data = this.#data(present | verified);
    const signature = sign("sha256", Buffer.concat([data, sha256(clientData)]), this.#key.privateKey);
    return this.#credential({
      clientDataJSON: clientData.toString("base64url"),
      authenticatorData: data.toString("base64url"),
      signature: signature.toString("base64url"),
      userHandle: this.#userHandle,
    });
  }
}
