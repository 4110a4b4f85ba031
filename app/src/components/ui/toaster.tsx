import { CircleAlertIcon, CircleCheckIcon } from "lucide-react";
import { Toaster as Sonner } from "sonner";
import { useIsMobile } from "@/hooks/use-is-mobile";
import { useTheme } from "@/hooks/use-theme";

export function Toaster() {
  const [theme] = useTheme();
  const isMobile = useIsMobile();
  return (
    <Sonner
      theme={theme}
      // On a phone the lower edge belongs to the dialogs.
      position={isMobile ? "top-center" : "bottom-right"}
      mobileOffset={{ top: "4.5rem" }}
      icons={{
        success: <CircleCheckIcon className="size-4.5 text-success" aria-hidden />,
        error: <CircleAlertIcon className="size-4.5 text-destructive" aria-hidden />,
      }}
      toastOptions={{
        classNames: {
          toast: "!rounded-lg !border-border !bg-surface-raised !font-sans !text-foreground !shadow-raised",
          description: "!text-muted-foreground",
        },
      }}
    />
  );
}
