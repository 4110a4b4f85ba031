import { CircleAlertIcon, CircleCheckIcon } from "lucide-react";
import { Toaster as Sonner } from "sonner";
import { useTheme } from "@/hooks/use-theme";

export function Toaster() {
  const [theme] = useTheme();
  return (
    <Sonner
      theme={theme}
      position="bottom-right"
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
