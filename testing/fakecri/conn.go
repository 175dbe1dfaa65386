package fakecri

import (
	"context"
	"errors"
	"net"
	"sync"
)

// pipe is a listener for connections within this process. The connections have no buffers, so that thousands of
// connections need little memory.
type pipe struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipe() *pipe { return &pipe{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipe) dial(ctx context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.closed:
		return nil, errors.New("connect to the fake runtime: the runtime is going down")
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (p *pipe) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipe) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipe) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

// counted is a listener that registers its connections with the Server.
type counted struct {
	net.Listener

	server *Server
}

func (l counted) Accept() (net.Conn, error) {
	inner, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	conn := &countedConn{Conn: inner, server: l.server}
	l.server.counts.Lock()
	l.server.conns[conn] = true
	l.server.counts.Unlock()
	return conn, nil
}

// countedConn returns itself in its remote address (type caller), so that the handler of a call can close the
// connection of the call.
type countedConn struct {
	net.Conn

	server *Server
}

// caller is the remote address of a connection, and refers to the connection.
type caller struct {
	net.Addr

	conn net.Conn
}

func (c *countedConn) RemoteAddr() net.Addr { return caller{c.Conn.RemoteAddr(), c} }

func (c *countedConn) Close() error {
	c.server.counts.Lock()
	delete(c.server.conns, c)
	c.server.counts.Unlock()
	return c.Conn.Close()
}
