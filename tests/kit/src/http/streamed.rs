//! Streamed request and response bodies.

use std::io;

use bytes::Bytes;
use futures_util::{Stream, TryStreamExt};
use http::{HeaderMap, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;
use tokio::time::timeout;

use super::{Body, LIMIT, Request, Response, client};
use crate::runtime::on_runtime;

/// A response whose body is still being received. Dropping it closes the connection.
#[derive(Debug)]
pub struct StreamedResponse {
    /// Status code.
    pub status: StatusCode,
    /// Response headers.
    pub headers: HeaderMap,
    body: Incoming,
}

impl Request {
    /// Sends the request and returns once the response head has arrived.
    ///
    /// # Errors
    /// If the connection fails or breaks.
    pub async fn open(self) -> Result<StreamedResponse, String> {
        let (head, body) = self.split();
        exchange(head, body).await
    }

    /// Sends the request with a streamed `body`, without a content length unless a header sets one; returns once the response
    /// head has arrived. There is no time limit: a test may send slowly.
    ///
    /// # Errors
    /// If the connection fails or breaks, or `body` ends with an error, which aborts the request.
    pub async fn stream(
        self,
        body: impl Stream<Item = io::Result<Bytes>> + Send + 'static,
    ) -> Result<StreamedResponse, String> {
        let (head, _empty) = self.split();
        exchange(head, StreamBody::new(body.map_ok(Frame::data)).boxed_unsync()).await
    }
}

async fn exchange(head: http::request::Builder, body: Body) -> Result<StreamedResponse, String> {
    on_runtime(async move {
        let request = head.body(body).map_err(|error| error.to_string())?;
        let response = client().request(request).await.map_err(|error| error.to_string())?;
        let (head, body) = response.into_parts();
        Ok(StreamedResponse { status: head.status, headers: head.headers, body })
    })
    .await
}

impl StreamedResponse {
    /// The next bytes; `None` at the end.
    ///
    /// # Errors
    /// If the response breaks off, or no data arrives for a minute.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, String> {
        loop {
            let frame = timeout(LIMIT, self.body.frame()).await.map_err(|_| "no chunk within a minute")?;
            let Some(frame) = frame else { return Ok(None) };
            // A frame that is not data is a trailer.
            if let Ok(data) = frame.map_err(|error| error.to_string())?.into_data() {
                return Ok(Some(data));
            }
        }
    }

    /// Reads the rest of the body.
    ///
    /// # Errors
    /// If the response breaks off.
    pub async fn whole(self) -> Result<Response, String> {
        let body = self.body.collect().await.map_err(|error| error.to_string())?.to_bytes();
        Ok(Response { status: self.status, headers: self.headers, body })
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use axum::Router;
    use axum::routing::post;
    use futures_util::stream;
    use http::Method;
    use tokio::net::TcpListener;
    use tokio::sync::mpsc;

    use super::*;

    /// Returns each request's body as the response.
    async fn echo_url() -> String {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let echo = Router::new().route("/", post(async |body: axum::body::Body| body));
        tokio::spawn(async { axum::serve(listener, echo).await });
        url
    }

    #[tokio::test]
    async fn chunks_are_sent_and_received_individually() {
        let (send, receive) = mpsc::channel::<Bytes>(1);
        let body = stream::unfold(receive, async |mut receive| {
            receive.recv().await.map(|chunk| (Ok(chunk), receive))
        });
        send.send("first".into()).await.unwrap();
        let mut response = Request::new(Method::POST, echo_url().await).stream(body).await.unwrap();
        // The second chunk is sent only after the first has come back, so neither side buffers the whole body.
        assert_eq!(response.chunk().await.unwrap().unwrap(), "first");
        send.send("second".into()).await.unwrap();
        assert_eq!(response.chunk().await.unwrap().unwrap(), "second");
        drop(send);
        assert_eq!(response.chunk().await, Ok(None));
    }

    #[tokio::test]
    async fn failing_body_aborts_the_request() {
        let pieces = [Ok(Bytes::from("first")), Err(io::Error::other("the disk is gone"))];
        let request = Request::new(Method::POST, echo_url().await);
        let response = match request.stream(stream::iter(pieces)).await {
            Ok(response) => response.whole().await.map(drop),
            Err(error) => Err(error),
        };
        assert!(response.is_err());
    }
}
