//! The kit's runtime. Clusters, proxies and HTTP connections outlive each test's runtime, and `Drop` must block on asynchronous
//! work, which a test's own runtime does not allow.

use std::future::Future;
use std::sync::OnceLock;

use tokio::runtime::{Builder, Runtime};

pub(crate) fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("the test kit's runtime starts")
    })
}

/// Runs `work` on the kit's runtime and propagates panics.
pub(crate) async fn on_runtime<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    match runtime().spawn(work).await {
        Ok(value) => value,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(error) => panic!("the test kit's runtime is gone: {error}"),
    }
}

/// Blocks on `work`, also inside another runtime.
pub(crate) fn block_on<T: Send>(work: impl Future<Output = T> + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| runtime().block_on(work));
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
