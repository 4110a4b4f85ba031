import { XIcon } from "lucide-react";
import { Dialog as Primitive } from "radix-ui";
import { Places } from "./places";

interface SidebarSheetProps {
  open: boolean;
  onOpenChange: (open: boolean) => void;
}

export function SidebarSheet({ open, onOpenChange }: SidebarSheetProps) {
  return (
    <Primitive.Root open={open} onOpenChange={onOpenChange}>
      <Primitive.Portal>
        <Primitive.Overlay className="fixed inset-0 z-50 bg-[oklch(0.16_0.02_220/0.5)] data-[state=closed]:animate-fade-out data-[state=open]:animate-fade-in" />
        <Primitive.Content
          aria-describedby={undefined}
          className="fixed inset-y-0 start-0 z-50 flex w-72 max-w-[85vw] flex-col overflow-y-auto border-e bg-surface p-3 shadow-overlay outline-none transition-transform duration-200 data-[state=closed]:animate-fade-out starting:-translate-x-full"
        >
          <div className="mb-2 flex items-center justify-between ps-2">
            <Primitive.Title className="text-label">Administration</Primitive.Title>
            <Primitive.Close className="grid size-11 place-items-center rounded-md text-muted-foreground hover:bg-muted hover:text-foreground">
              <XIcon className="size-4" aria-hidden />
              <span className="sr-only">Close</span>
            </Primitive.Close>
          </div>
          <Places />
        </Primitive.Content>
      </Primitive.Portal>
    </Primitive.Root>
  );
}
