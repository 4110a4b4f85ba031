// A session that ends by itself leaves the screen in place, so that nothing typed is lost. One that the person ends
// clears it, in every tab of this browser: the next one at this machine sees nothing.
const name = "basalt.signed-out";
const listeners = new Set<() => void>();

// One for the whole tab: another one would bring this tab its own word a second time, after the next screen stands.
let channel: BroadcastChannel | null = null;

function tell() {
  for (const listener of listeners) listener();
}

/** To be called when the person has signed out on purpose. */
export function announceSignOut() {
  tell();
  channel?.postMessage(null);
}

export function watchSignOut(signedOut: () => void) {
  listeners.add(signedOut);
  if (!channel) {
    channel = new BroadcastChannel(name);
    channel.onmessage = tell;
  }
  return () => {
    listeners.delete(signedOut);
    if (listeners.size > 0) return;
    channel?.close();
    channel = null;
  };
}
