// Command etcd is the etcd server. etcd's server module contains no main package that could be built.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
