package score

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// A request is written at once.
const writeBuffer = 64 << 10

// wire is an http.RoundTripper over one kept connection, for who asks one thing after the other. It writes and reads where it is called: that
// of net/http hands requests and answers on between goroutines, each of which waits for a processor where the machine is busy.
type wire struct {
	dialer  net.Dialer
	address string
	tls     *tls.Config

	mu   sync.Mutex
	kept *line
}

// line is a connection.
type line struct {
	net.Conn
	reader *bufio.Reader
	writer *bufio.Writer
}

// newWire asks the host of an address; with a configuration of TLS where its scheme is https.
func newWire(target *url.URL, config *tls.Config) *wire {
	w := &wire{dialer: net.Dialer{KeepAlive: 15 * time.Second}}
	port := target.Port()
	if target.Scheme == "https" {
		w.tls = config.Clone()
		w.tls.ServerName = target.Hostname()
		port = cmp.Or(port, "443")
	}
	w.address = net.JoinHostPort(target.Hostname(), cmp.Or(port, "80"))
	return w
}

// RoundTrip asks. A kept connection that was closed meanwhile is tried anew: asking twice does no harm.
func (w *wire) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx := request.Context()
	if kept := w.swap(nil); kept != nil {
		response, isStale, err := w.ask(kept, request)
		if err == nil || !isStale || ctx.Err() != nil {
			return response, err
		}
		body, err := request.GetBody()
		if err != nil {
			return nil, err
		}
		request = request.WithContext(ctx)
		request.Body = body
	}
	fresh, err := w.dial(ctx)
	if err != nil {
		return nil, err
	}
	response, _, err := w.ask(fresh, request)
	return response, err
}

// swap keeps a connection, or none, and gives the one that was kept.
func (w *wire) swap(kept *line) *line {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.kept
	w.kept = kept
	return before
}

// CloseIdleConnections is for http.Client.
func (w *wire) CloseIdleConnections() {
	if kept := w.swap(nil); kept != nil {
		_ = kept.Close()
	}
}

func (w *wire) dial(ctx context.Context) (*line, error) {
	conn, err := w.dialer.DialContext(ctx, "tcp", w.address)
	if err != nil {
		return nil, err
	}
	if w.tls != nil {
		secured := tls.Client(conn, w.tls)
		if err := secured.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			return nil, err
		}
		conn = secured
	}
	return &line{Conn: conn, reader: bufio.NewReader(conn), writer: bufio.NewWriterSize(conn, writeBuffer)}, nil
}

// ask writes a request and reads the head of the answer. The connection is stale if nothing at all came.
func (w *wire) ask(conn *line, request *http.Request) (_ *http.Response, isStale bool, _ error) {
	ctx := request.Context()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	failed := func(err error, isStale bool) (*http.Response, bool, error) {
		stop()
		_ = conn.Close()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, isStale, err
	}
	err := request.Write(conn.writer)
	if err == nil {
		err = conn.writer.Flush()
	}
	// Who refuses a request may do so before it is read.
	if _, unread := conn.reader.Peek(1); unread != nil {
		if err == nil {
			err = unread
		}
		return failed(err, true)
	}
	response, err := http.ReadResponse(conn.reader, request)
	if err != nil {
		return failed(err, false)
	}
	response.Body = &body{ReadCloser: response.Body, ended: response.ContentLength == 0, end: func(ended bool) {
		// What has ended by the deadline is of no further use.
		if !stop() || !ended || response.Close || conn.reader.Buffered() > 0 {
			_ = conn.Close()
		} else if before := w.swap(conn); before != nil {
			_ = before.Close()
		}
	}}
	return response, false, nil
}

// body tells when it is closed, and whether it was read to its end.
type body struct {
	io.ReadCloser
	ended bool
	end   func(ended bool)
}

// Read is io.Reader's.
func (b *body) Read(into []byte) (int, error) {
	count, err := b.ReadCloser.Read(into)
	b.ended = b.ended || err == io.EOF
	return count, err
}

// Close is io.Closer's.
func (b *body) Close() error {
	if b.end != nil {
		end := b.end
		b.end = nil
		end(b.ended)
	}
	return nil
}
