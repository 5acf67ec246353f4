// Farlook from Go, by cgo over the C library.
//
//	go run . shm:///run/farlook/kv
package main

/*
#cgo pkg-config: farlook
#include <farlook.h>
#include <stdlib.h>
*/
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"
)

func check(code C.int) {
	if code != C.FARLOOK_OK {
		fmt.Fprintln(os.Stderr, C.GoString(C.farlook_code_name(code)), C.GoString(C.farlook_error()))
		os.Exit(1)
	}
}

func bytes(text string) (unsafe.Pointer, C.size_t) { return C.CBytes([]byte(text)), C.size_t(len(text)) }

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run . ADDRESS, as shm:///run/farlook/kv")
		os.Exit(2)
	}
	// farlook_error() belongs to this thread.
	runtime.LockOSThread()
	address := C.CString(os.Args[1])
	defer C.free(unsafe.Pointer(address))
	var client *C.farlook_client
	check(C.farlook_connect(address, nil, &client))
	defer C.farlook_close(client)

	key, keyBytes := bytes("greeting from Go")
	defer C.free(key)
	value, valueBytes := bytes("hello, world")
	defer C.free(value)
	var version C.uint64_t
	check(C.farlook_put(client, key, keyBytes, value, valueBytes, nil, &version))

	found := C.farlook_value_new()
	defer C.farlook_value_free(found)
	check(C.farlook_get_value(client, key, keyBytes, nil, found))
	text := C.GoBytes(C.farlook_value_data(found), C.int(C.farlook_value_bytes(found)))
	fmt.Printf("%s (version %d)\n", text, version)
}
