//! The kit's own runtime. Clusters, proxies and HTTP connections outlive the runtime of any one test, and `Drop`
//! has to wait for asynchronous work, which a test's own runtime forbids.

use std::future::Future;
use std::sync::OnceLock;

use tokio::runtime::{Builder, Runtime};

/// The runtime.
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

/// Runs `work` on the kit's runtime; a panic in it is a panic here.
pub(crate) async fn on_runtime<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    match runtime().spawn(work).await {
        Ok(value) => value,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(error) => panic!("the test kit's runtime is gone: {error}"),
    }
}

/// Runs `work` to its end from anywhere, even inside another runtime. Blocks the thread.
pub(crate) fn block_on<T: Send>(work: impl Future<Output = T> + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| runtime().block_on(work));
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
