import { S3Client, S3ServiceException } from "@aws-sdk/client-s3";
import { anonKey, url } from "./environment";

export const endpoint = `${url}/storage/v1/s3`;

/** The pair of `project/basalt.toml`. */
export const pair = { accessKeyId: "conformance", secretAccessKey: "a secret of the conformance tests alone" };

interface Credentials {
  accessKeyId: string;
  secretAccessKey: string;
  sessionToken?: string;
}

/** AWS's own client, as its users make it. */
export function s3(credentials: Credentials = pair, region = "us-east-1"): S3Client {
  return new S3Client({ endpoint, region, forcePathStyle: true, credentials, maxAttempts: 1 });
}

/** A user by their access token. */
export function s3As(token: string): S3Client {
  return s3({ accessKeyId: "local", secretAccessKey: anonKey, sessionToken: token });
}

/** What the server refused with: `[status, code, message]`. */
export async function refusal(answer: Promise<unknown>): Promise<[number | undefined, string, string]> {
  try {
    await answer;
  } catch (error) {
    if (error instanceof S3ServiceException) {
      return [error.$metadata.httpStatusCode, error.name, error.message];
    }
    throw error;
  }
  throw new Error("was accepted");
}

/** Bytes that are the same in each run and in no two places. */
export function bytes(length: number): Uint8Array {
  const all = new Uint8Array(length);
  let state = 0x2545f491;
  for (let index = 0; index < length; index++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    all[index] = state >>> 24;
  }
  return all;
}
