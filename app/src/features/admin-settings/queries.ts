import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { useChange } from "@/hooks/use-change";
import { basalt } from "@/lib/basalt";
import { messageOf } from "@/lib/errors";
import { requireRow } from "@/lib/stale-row";
import { toast } from "@/lib/toast";

/** All settings, by key. */
export const settingListQuery = () =>
  queryOptions({
    queryKey: ["app-settings", "list"] as const,
    queryFn: async ({ signal }) => {
      const { data } = await basalt
        .from("app_settings")
        .select("id, key, value, updated_at")
        .order("key")
        .abortSignal(signal)
        .throwOnError();
      return data;
    },
    meta: { errorTitle: "Failed to load settings." },
  });

export const logoSizes = ["regular", "small", "favicon"] as const;
export type LogoSize = (typeof logoSizes)[number];

// The logo of the header is read under a key that begins alike.
const brandKey = ["brand"] as const;

/** Addresses of the site's logos, by size. */
export const logoListQuery = () =>
  queryOptions({
    queryKey: [...brandKey, "admin"] as const,
    queryFn: async ({ signal }) => {
      const { data } = await basalt
        .from("brand_assets")
        .select("asset_size, asset_url")
        .eq("asset_type", "logo")
        .order("asset_size")
        .abortSignal(signal)
        .throwOnError();
      return new Map(data.map(({ asset_size, asset_url }) => [asset_size, asset_url]));
    },
    meta: { errorTitle: "Failed to load logos." },
  });

/** Files of earlier and present logos, the newest first. */
export const logoFileQuery = () =>
  queryOptions({
    queryKey: [...brandKey, "files"] as const,
    queryFn: async () => {
      const { data, error } = await basalt.storage
        .from(bucket)
        .list("logos", { limit: 100, sortBy: { column: "created_at", order: "desc" } });
      if (error) throw error;
      return data.map(({ name }) => `logos/${name}`);
    },
  });

/** What the logo of a size was before: the newest other file, else the picture that comes with the app. */
export function previousLogo(size: LogoSize, current: string | undefined, files: string[]) {
  if (!current || !fileOf(current)) return null;
  const earlier = files.find((file) => file.startsWith(`logos/${size}_`) && file !== fileOf(current));
  return earlier ? addressOf(earlier) : bundledLogo;
}

/** As `features/brand` shows it where there is no other. */
const bundledLogo = "/favicon.svg";

const addressOf = (file: string) => new URL(basalt.storage.from(bucket).getPublicUrl(file).data.publicUrl).pathname;

/** The file in storage that an address names, if it names one. */
function fileOf(url: string) {
  const name = url.split(`/object/public/${bucket}/`)[1];
  return name?.startsWith("logos/") ? decodeURIComponent(name) : null;
}

const bucket = "public";
/** The bucket's own limit. */
const limitBytes = 5 * 1024 * 1024;

async function setLogo(size: LogoSize, url: string) {
  const { data } = await basalt
    .from("brand_assets")
    .upsert({ asset_type: "logo", asset_size: size, asset_url: url }, { onConflict: "asset_type,asset_size" })
    .select("id")
    .maybeSingle()
    .throwOnError();
  requireRow(data);
}

/** Makes the previous picture the logo again. The present one becomes the previous. */
export function useRevertLogo(size: LogoSize) {
  return useChange({
    failed: `Failed to upload ${size} logo. Please try again.`,
    refetches: [brandKey],
    change: (previous: string) => setLogo(size, previous),
  });
}

/** Puts the picture into storage and makes it the logo of that size. The one before stays in storage, to be gone back to. */
export function useUploadLogo(size: LogoSize) {
  const queryClient = useQueryClient();
  return useMutation({
    mutationFn: async (file: File) => {
      const extension = /\.([a-z0-9]{1,5})$/i.exec(file.name)?.[1]?.toLowerCase() ?? "png";
      const path = `logos/${size}_${crypto.randomUUID()}.${extension}`;
      const store = basalt.storage.from(bucket);
      const { error } = await store.upload(path, file, { cacheControl: "3600", contentType: file.type });
      if (error) throw error;
      const before = queryClient.getQueryData(logoListQuery().queryKey)?.get(size);
      try {
        await setLogo(size, addressOf(path));
      } catch (error) {
        void store.remove([path]);
        throw error;
      }
      const files = queryClient.getQueryData(logoFileQuery().queryKey) ?? [];
      await removeOlder(files.filter((name) => name.startsWith(`logos/${size}_`) && name !== fileOf(before ?? "")));
    },
    onSuccess: () => queryClient.invalidateQueries({ queryKey: brandKey }),
    onError: (error) =>
      void toast.error(`Failed to upload ${size} logo. Please try again.`, { description: messageOf(error) }),
  });
}

/** Files that are neither the logo nor the one before. That they stay is no failure of the upload. */
async function removeOlder(files: string[]) {
  if (files.length === 0) return;
  const { error } = await basalt.storage.from(bucket).remove(files);
  if (error) console.warn("Replaced logos could not be removed.", error);
}

export async function requireImage(file: File) {
  if (!file.type.startsWith("image/")) throw new Error("Please choose an image file.");
  if (file.size > limitBytes) throw new Error("The image is too large: 5 MB at most.");
  // The type comes from the file name, so check that the browser can decode the content.
  const shows = file.type === "image/svg+xml" ? await isDrawing(file) : await isBitmap(file);
  if (!shows) throw new Error("This file is not an image that browsers can display.");
}

async function isBitmap(file: File) {
  return createImageBitmap(file).then(
    (bitmap) => {
      bitmap.close();
      return true;
    },
    () => false,
  );
}

async function isDrawing(file: File) {
  const { documentElement } = new DOMParser().parseFromString(await file.text(), "image/svg+xml");
  return documentElement.nodeName === "svg";
}
