import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { toast } from "sonner";
import { basalt } from "@/lib/basalt";
import { messageOf } from "@/lib/errors";
import { requireRow } from "@/lib/stale-row";

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

const bucket = "public";
/** The bucket's own limit. */
const limitBytes = 5 * 1024 * 1024;

/** Puts the picture into storage and makes it the logo of that size. */
export function useUploadLogo(size: LogoSize) {
  const queryClient = useQueryClient();
  return useMutation({
    mutationFn: async (file: File) => {
      await requireImage(file);
      const extension = /\.([a-z0-9]{1,5})$/i.exec(file.name)?.[1]?.toLowerCase() ?? "png";
      const path = `logos/${size}_${crypto.randomUUID()}.${extension}`;
      const store = basalt.storage.from(bucket);
      const { error } = await store.upload(path, file, { cacheControl: "3600", contentType: file.type });
      if (error) throw error;
      const before = queryClient.getQueryData(logoListQuery().queryKey)?.get(size);
      try {
        const { data } = await basalt
          .from("brand_assets")
          .upsert(
            {
              asset_type: "logo",
              asset_size: size,
              asset_url: new URL(store.getPublicUrl(path).data.publicUrl).pathname,
            },
            { onConflict: "asset_type,asset_size" },
          )
          .select("id")
          .maybeSingle()
          .throwOnError();
        requireRow(data);
      } catch (error) {
        void store.remove([path]);
        throw error;
      }
      await removeReplaced(before);
    },
    onSuccess: async () => {
      await queryClient.invalidateQueries({ queryKey: brandKey });
      toast.success(`The ${size} logo is updated`);
    },
    onError: (error) =>
      void toast.error(`Failed to upload ${size} logo. Please try again.`, { description: messageOf(error) }),
  });
}

/** The file that no row names any more. That it stays is no failure of the upload. */
async function removeReplaced(url: string | undefined) {
  const name = url?.split(`/object/public/${bucket}/`)[1];
  if (!name?.startsWith("logos/")) return;
  const { error } = await basalt.storage.from(bucket).remove([decodeURIComponent(name)]);
  if (error) console.warn("The replaced logo could not be removed.", error);
}

async function requireImage(file: File) {
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
