import type { User } from "@supabase/supabase-js";

type Identified = Pick<User, "email" | "user_metadata">;

/** The name a person gave, else one made from the address. */
export function displayName({ email, user_metadata }: Identified) {
  const name: unknown = user_metadata.name;
  if (typeof name === "string" && name.trim() !== "") return name.trim();
  const local = email?.split("@")[0];
  return local ? local.charAt(0).toUpperCase() + local.slice(1) : "User";
}

export function initialOf({ email }: Identified) {
  return email?.charAt(0).toUpperCase() || "U";
}

export function avatarOf({ user_metadata }: Identified) {
  const url: unknown = user_metadata.avatar_url;
  return typeof url === "string" && url !== "" ? url : undefined;
}
