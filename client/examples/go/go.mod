module farlook.example/hello

go 1.19
