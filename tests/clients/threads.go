// Prints IDs of all agents from four goroutines, until its input ends: threads HOST:PORT ...
package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"ids/uniq"
)

func main() {
	ids := uniq.New(os.Args[1:], "/uniq64", 1000)
	var ended atomic.Bool
	var minters sync.WaitGroup
	for i := 0; i < 4; i++ {
		minters.Add(1)
		go func() {
			defer minters.Done()
			for !ended.Load() {
				id, err := ids.Get()
				if err != nil {
					panic(err)
				}
				fmt.Println(id)
			}
		}()
	}
	io.Copy(io.Discard, os.Stdin)
	ended.Store(true)
	minters.Wait()
}
