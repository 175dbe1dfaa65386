package manager

import (
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"sync"
)

// boundedListener limits the number of open connections. If a new connection exceeds the limit, the listener closes a
// connection: the oldest idle connection of the client address with the most idle connections. If a request is
// running on every connection, the listener closes the oldest connection of the client address with the most
// connections. So a client that opens many connections does not keep other clients from connecting.
type boundedListener struct {
	net.Listener

	most int

	mu     sync.Mutex
	total  int
	open   map[string][]*boundedConn // by client address, the oldest connection first
	closed func(address string)      // called for each connection closed because of the limit
}

func newBoundedListener(inner net.Listener, most int, closed func(address string)) *boundedListener {
	return &boundedListener{Listener: inner, most: most, open: map[string][]*boundedConn{}, closed: closed}
}

// boundedConn is a connection that counts against the limit until it is closed.
type boundedConn struct {
	net.Conn

	listener *boundedListener
	address  string
	once     sync.Once
	busy     bool // a request is running; guarded by the listener's lock
}

// Accept waits for the next connection.
func (l *boundedListener) Accept() (net.Conn, error) {
	inner, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	conn := &boundedConn{Conn: inner, listener: l, address: hostOf(inner.RemoteAddr().String())}
	if oldest := l.add(conn); oldest != nil {
		_ = oldest.Close() // the connection does not count any more, even if Close fails
		l.closed(oldest.address)
	}
	return conn, nil
}

// add counts conn. If the limit is exceeded, the result is the connection to close, otherwise nil.
func (l *boundedListener) add(conn *boundedConn) *boundedConn {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[conn.address] = append(l.open[conn.address], conn)
	if l.total++; l.total <= l.most {
		return nil
	}
	var victim *boundedConn
	most := 0
	for _, conns := range l.open {
		idle := slices.DeleteFunc(slices.Clone(conns), func(c *boundedConn) bool { return c.busy })
		if len(idle) > most {
			victim, most = idle[0], len(idle)
		}
	}
	if victim != nil {
		return victim
	}
	for _, conns := range l.open {
		if len(conns) > most {
			victim, most = conns[0], len(conns)
		}
	}
	return victim
}

// state records whether a request is running on a connection. The method is used as http.Server.ConnState.
func (l *boundedListener) state(conn net.Conn, state http.ConnState) {
	if encrypted, ok := conn.(*tls.Conn); ok {
		conn = encrypted.NetConn()
	}
	if c, ok := conn.(*boundedConn); ok {
		l.mu.Lock()
		defer l.mu.Unlock()
		c.busy = state == http.StateActive
	}
}

// Close closes the connection; a second call does nothing.
func (c *boundedConn) Close() error {
	c.once.Do(func() {
		l := c.listener
		l.mu.Lock()
		defer l.mu.Unlock()
		l.total--
		rest := slices.DeleteFunc(l.open[c.address], func(other *boundedConn) bool { return other == c })
		if l.open[c.address] = rest; len(rest) == 0 {
			delete(l.open, c.address)
		}
	})
	return c.Conn.Close()
}

// hostOf returns the host of an address, without the port.
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}
