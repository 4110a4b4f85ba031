import { useChange } from "@/hooks/use-change";
import { basalt } from "@/lib/basalt";
import { codeOf, messageOf } from "@/lib/errors";
import { toast } from "@/lib/toast";
import { type Organization, organizationKeys } from "./queries";
import type { OrganizationValues } from "./schema";

const bucket = "org_logos";
const uniqueViolation = "23505";

/** A new logo, none, or the one that is there. */
export type LogoChange = { kind: "new"; image: Blob } | { kind: "none" } | { kind: "same" };

interface Change {
  /** What the person has seen; null when there was nothing. */
  base: Organization | null;
  values: OrganizationValues;
  logo: LogoChange;
}

/** `false` when another person saved it since `base`; nothing was written then. */
export function useSaveOrganization(planId: string) {
  return useChange({
    failed: "Error saving data",
    isQuiet: (error) => error instanceof LogoError,
    refetches: [organizationKeys.detail(planId)],
    change: async ({ base, values, logo }: Change) => {
      const old = base?.logo_url ?? null;
      const logoUrl = logo.kind === "new" ? await uploadLogo(planId, logo.image) : logo.kind === "none" ? null : old;
      const row = {
        name: values.name.trim() || null,
        ein: values.ein.trim() || null,
        mission: values.mission.trim() || null,
        vision: values.vision.trim() || null,
        values: values.values.trim() || null,
        logo_url: logoUrl,
        plan_id: planId,
      };
      const { data, error } = base
        ? await basalt
            .from("organizations")
            .update(row)
            .eq("id", base.id)
            .eq("updated_at", base.updated_at)
            .select("id")
            .maybeSingle()
        : await basalt.from("organizations").insert(row).select("id").maybeSingle();
      const saved = data !== null && !error;
      const superseded = saved ? old : logoUrl;
      if (superseded && superseded !== (saved ? logoUrl : old)) await removeLogo(planId, superseded);
      if (error && codeOf(error) !== uniqueViolation) throw error;
      if (saved) toast.success("Organization data saved");
      return saved;
    },
  });
}

class LogoError extends Error {}

async function uploadLogo(planId: string, image: Blob) {
  const random = crypto.getRandomValues(new Uint32Array(2)).reduce((text, part) => text + part.toString(36), "");
  const path = `${planId}/${random}_${Date.now()}.png`;
  const storage = basalt.storage.from(bucket);
  const { error } = await storage.upload(path, image, { contentType: "image/png", cacheControl: "3600" });
  if (error) {
    toast.error("Error uploading logo", { description: messageOf(error) });
    throw new LogoError(error.message);
  }
  // Without the origin: the site may move.
  return new URL(storage.getPublicUrl(path).data.publicUrl).pathname;
}

async function removeLogo(planId: string, url: string) {
  const path = /\/org_logos\/(.+)$/.exec(url)?.[1];
  if (!path?.startsWith(`${planId}/`)) return;
  const { error } = await basalt.storage.from(bucket).remove([path]);
  // An old picture that stays behind harms nothing.
  if (error) console.warn("The former logo could not be removed.", error);
}
