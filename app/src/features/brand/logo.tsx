import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { Logo as BundledLogo } from "@/components/logo";
import { Skeleton } from "@/components/ui/skeleton";
import { useLivePublicRows } from "@/hooks/use-live-public-rows";
import { cn } from "@/lib/cn";
import { bundledLogo, logoKey, logoQuery } from "./queries";

interface LogoProps {
  /** `regular` is about 120 px wide, `small` 24 px. */
  size: "regular" | "small";
  className?: string;
}

/** The organisation's logo; the app's own until another is known, and when that one cannot be shown. */
export function Logo({ size, className }: LogoProps) {
  const { data: url } = useQuery(logoQuery(size));
  const state = useImage(url);
  if (!url || state === "broken") return <BundledLogo compact={size === "small"} className={cn(className)} />;
  const box = size === "regular" ? "h-8 w-30" : "size-6";
  if (state === "loading") return <Skeleton className={cn(box, className)} />;
  return <img src={url} alt="" className={cn(box, "object-contain object-left rtl:object-right", className)} />;
}

/** Keeps the logos and the browser tab's icon up to date. Rendered once. */
export function LiveBrand() {
  const { data } = useQuery(logoQuery("favicon"));
  useLivePublicRows("brand_assets", logoKey);
  const favicon = data ?? bundledLogo;
  useEffect(() => {
    const link = document.querySelector<HTMLLinkElement>('link[rel="icon"]');
    if (!link || link.getAttribute("href") === favicon) return;
    // The type is the file's to tell.
    link.removeAttribute("type");
    link.setAttribute("href", favicon);
  }, [favicon]);
  return null;
}

function useImage(url: string | null | undefined) {
  const [seen, setSeen] = useState<{ url: string; state: "shown" | "broken" } | null>(null);
  useEffect(() => {
    if (!url) return;
    const image = new Image();
    image.onload = () => setSeen({ url, state: "shown" });
    image.onerror = () => setSeen({ url, state: "broken" });
    image.src = url;
    return () => {
      image.onload = null;
      image.onerror = null;
    };
  }, [url]);
  return seen && seen.url === url ? seen.state : "loading";
}
